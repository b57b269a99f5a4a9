"""An agent with no OpenTelemetry at all: asks the model each argument in turn."""

import sys

from openai import OpenAI

client = OpenAI(max_retries=0)
for prompt in sys.argv[1:]:
    answer = client.chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
    )
    print(answer.choices[0].message.content)
