"""A way between two nodes that can be cut, for tests."""

import select
import socket
import threading


class Proxy:
    """Passes bytes on between its port and another; while cut, all that is sent vanishes and nobody is told."""

    def __init__(self, target):
        self._target, self._cut, self._heal, self._closed = target, *(threading.Event() for _ in range(3))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._other = {}  # each socket's other end
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cut(self):
        self._cut.set()

    def heal(self):
        """From now on new connections pass; those that lost bytes are gone."""
        self._heal.set()

    def close(self):
        self._closed.set()
        self._thread.join()
        for each in (*self._other, self._listening):
            each.close()

    def _serve(self):
        while not self._closed.is_set():
            if self._heal.is_set():
                for each in list(self._other):
                    self._drop(each)
                self._cut.clear()
                self._heal.clear()
            for each in select.select([self._listening, *self._other], [], [], 0.02)[0]:
                if each is self._listening:
                    self._accept()
                elif each in self._other:
                    self._pass(each)

    def _accept(self):
        near = self._listening.accept()[0]
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._other |= {near: far, far: near}

    def _pass(self, end):
        try:
            content = end.recv(1 << 16)
            if content and not self._cut.is_set():
                self._other[end].sendall(content)
        except OSError:
            content = b""
        if not content:
            self._drop(end)

    def _drop(self, end):
        if end in self._other:
            other = self._other.pop(end)
            self._other.pop(other, None)
            end.close()
            other.close()
