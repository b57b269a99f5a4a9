"""A program that goes around its recording. argv: how; it asks "one" first."""

import os
import subprocess
import sys

import openai

client = openai.OpenAI(max_retries=2)


def ask(prompt, **options):
    answer = client.with_options(**options).chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
    )
    print(answer.choices[0].message.content)


def image():
    """A request that no codec reads, whose failure is no end."""
    try:
        client.images.generate(prompt="a cat")
    except openai.APIStatusError as error:
        print(error.status_code)


def hidden():
    subprocess.run([sys.executable, "-I", "-c", "print('hidden')"], check=True)


def cleared():
    os.environ.clear()
    subprocess.run([sys.executable, "-c", "print('cleared')"], check=True)


def flaky():
    ask("[flaky]")


ask("one")
globals()[sys.argv[1]]()
