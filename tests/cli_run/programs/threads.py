"""An agent that asks from a plain thread pool: the OpenTelemetry context does not follow there."""

import concurrent.futures
import sys

from openai import OpenAI

client = OpenAI(max_retries=0)


def ask(prompt):
    answer = client.chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
    )
    return answer.choices[0].message.content


with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for text in pool.map(ask, sys.argv[1:]):
        print(text)
