"""A program whose tool connects to a host given by argument, after one call of the model."""

import socket
import sys

from openai import OpenAI

answer = OpenAI(max_retries=0).chat.completions.create(
    model="gpt-4o-mini", messages=[{"role": "user", "content": "hello"}]
)
print(answer.choices[0].message.content)
try:
    socket.create_connection((sys.argv[1], 9), timeout=2).close()
    print("connected")
except OSError as error:
    print(type(error).__name__)
