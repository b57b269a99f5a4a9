"""The same on the Anthropic SDK, which retries by itself."""

import sys

from anthropic import Anthropic

client = Anthropic()
for prompt in sys.argv[1:]:
    message = client.messages.create(
        model="claude-haiku-4-5", max_tokens=64, messages=[{"role": "user", "content": prompt}]
    )
    print(message.content[0].text)
