"""What the threads of Ray print is logged; standard output is for results."""

import logging
import sys
import threading

from fairmend.workers.ray_messages import RayMessages


def say(text, name):
    thread = threading.Thread(target=lambda: sys.stdout.write(text), name=name)
    thread.start()
    thread.join()


def test_messages_of_ray_go_to_the_log(capsys, caplog):
    caplog.set_level(logging.INFO, "fairmend")
    before, messages = sys.stdout, RayMessages()
    messages.start()
    say("a worker died\n", "ray_listen_error_messages")
    say("mine, ", "worker")
    sys.stdout.write("and mine")
    assert sys.stdout.encoding == before.encoding
    with messages.shutting_down():
        sys.stdout.write("and others\n")
    assert sys.stdout is before
    assert capsys.readouterr().out == "mine, and mine"
    assert caplog.messages == ["a worker died", "and others"]
