"""A thread is in the middle of a call while another forks: its locks stay held in the child for ever."""

import os
import signal
import sys
import threading

from otel_cassette import Cassette, CassetteEntry

REQUEST = {"messages": [{"role": "user", "content": "hi"}]}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "there"}}]}
entry = CassetteEntry(kind="llm", index=0, request=REQUEST, response=ANSWER)
held, done = threading.Event(), threading.Event()

with Cassette([entry], mode="strict").replaying() as session:
    llm = session.owner.wrap_llm()
    playback = session.playback
    locks = (playback._lock, playback.engine._lock, playback.journal._lock)

    def hold():
        for lock in locks:
            lock.acquire()
        held.set()
        done.wait()
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # ends a child that waits for ever
        os.write(1, llm.complete("hi").text.encode())
        os._exit(0)
    done.set()
    thread.join()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
