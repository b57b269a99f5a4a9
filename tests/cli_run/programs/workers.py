"""An agent that forks its workers. argv: how, then prompts; one worker for each, and one call here first."""

import multiprocessing
import os
import signal
import sys
import time

from openai import OpenAI


def ask(prompt):
    answer = OpenAI(max_retries=0).chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
    )
    return answer.choices[0].message.content


def forked(prompts):
    """As pre-forking servers do: `os.fork`, and no exit handlers in the child."""
    children = []
    for prompt in prompts:
        pid = os.fork()
        if pid == 0:
            print(ask(prompt), flush=True)
            os._exit(0)
        children.append(pid)
        os.waitpid(pid, 0)


def killed(prompts):
    """The worker does its work, and is killed before it could say goodbye."""
    for prompt in prompts:
        pid = os.fork()
        if pid == 0:
            print(ask(prompt), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        os.waitpid(pid, 0)


def pool(prompts):
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for text in workers.map(ask, prompts):
            print(text)


def spawned(prompts):
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        for text in workers.map(ask, prompts):
            print(text)


if __name__ == "__main__":
    print(ask("from the parent"), flush=True)
    globals()[sys.argv[1]](sys.argv[2:])
