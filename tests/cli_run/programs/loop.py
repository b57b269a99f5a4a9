"""An agent with a tool of its own: asks, runs what the model asks for, tells the result."""

import json

from openai import OpenAI

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


def look_up(arguments):
    print(f"looked up {json.loads(arguments)}")
    return json.dumps({"state": "sent"})


client = OpenAI(max_retries=0)
messages = [{"role": "user", "content": "[tool]"}]
while True:
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
    message = answer.choices[0].message
    if not message.tool_calls:
        break
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        result = look_up(call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(message.content)
