"""A proxy to a server that can cut connections and drop responses."""

import contextlib
import socket
import threading


class Wire:
    """Passes connections on to a port, until it is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._passes_on = True
        self._answers = True
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def swallow_answers(self) -> None:
        """Let nothing from the server through from now on, and everything to it."""
        self._answers = False

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        with self._lock:
            self._passes_on = False
            ended, self._sockets = self._sockets, set()
        for each in ended:
            _close(each)

    def join(self) -> None:
        """Pass everything on again."""
        with self._lock:
            self._passes_on = self._answers = True

    def close(self) -> None:
        """End it."""
        # Woken by a connection: to close what another thread accepts on does not end that.
        self.cut()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._threads:
            each.join(60)
            assert not each.is_alive()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    _close(near)
                    continue
                with self._lock:
                    if not self._passes_on:
                        _close(near)
                        _close(far)
                        continue
                    self._sockets |= {near, far}
                self._begin(near, far, is_answer=False)
                self._begin(far, near, is_answer=True)

    def _begin(self, source: socket.socket, target: socket.socket, *, is_answer: bool) -> None:
        thread = threading.Thread(target=self._pass_on, args=(source, target, is_answer))
        self._threads.append(thread)
        thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._answers or not is_answer:
                    target.sendall(data)
        _close(source)
        _close(target)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
