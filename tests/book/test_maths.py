"""The formula server of the build: a connection that comes a moment too early is tried again."""

import socket
import threading
import time

from booksite import ROOT


def test_a_server_that_does_not_listen_yet_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book/ext"))
    from coursebook.maths import PatientSocket

    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, PatientSocket(socket.AF_UNIX) as client:
        server.bind(path)
        threading.Thread(target=lambda: (time.sleep(0.2), server.listen()), daemon=True).start()
        client.connect(path)
        assert client.getpeername() == path
