"""Repairs what Wine's sockets do differently from Windows'. Python runs it at its start, in every process.

It goes into the site-packages of environments under Wine only, and does nothing on Windows itself.
"""

from __future__ import annotations

import os
import socket
import sys

WSA_VERSION = 0x0202
PROTOCOL_INFO_WORDS = 157
"""A WSAPROTOCOL_INFOW is 628 bytes."""
DUPLICATED = 0xFF00FF00
"""Wine's mark, in dwServiceFlags4, of a record that its WSADuplicateSocket made."""


def adopt_process_manager_socket(handle: int) -> None:
    """Make an inherited socket one that this process may use.

    Wine's send() and getsockopt() refuse (WSAENOTSOCK, 10038) a socket handle that the process inherited and did not
    make; Windows accepts it. Intel MPI hands each rank its channel to the process manager (PMI_FD) that way. Wine
    enters a foreign handle into the process's list when WSASocketW gets a duplicate's record of it.
    """
    if sys.platform == "win32":
        import ctypes

        winsock = ctypes.WinDLL("ws2_32")
        winsock.WSAStartup(WSA_VERSION, ctypes.create_string_buffer(512))
        record = (ctypes.c_uint32 * PROTOCOL_INFO_WORDS)()
        record[2] = handle  # dwServiceFlags3
        record[3] = DUPLICATED  # dwServiceFlags4
        winsock.WSASocketW.restype = ctypes.c_size_t
        winsock.WSASocketW.argtypes = [*[ctypes.c_int] * 3, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        winsock.WSASocketW(-1, -1, -1, ctypes.addressof(record), 0, 0)


def resolve_own_name() -> None:
    """Let gethostbyname find this host under its own name, as it always does on Windows.

    Under Wine it asks the Linux host, which need not know its own name (no line in /etc/hosts). DeepSpeed's discovery
    of ranks asks it for the address that all ranks meet at; under Wine they are all on this host.
    """
    original = socket.gethostbyname

    def gethostbyname(name: str) -> str:
        try:
            return original(name)
        except socket.gaierror:
            if name.lower() != socket.gethostname().lower():
                raise
            return "127.0.0.1"

    gethostbyname.__doc__ = original.__doc__
    socket.gethostbyname = gethostbyname


def _under_wine() -> bool:
    if sys.platform != "win32":
        return False
    import ctypes

    return hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")


if _under_wine():
    resolve_own_name()
    if os.environ.get("PMI_FD", "").isdecimal():
        adopt_process_manager_socket(int(os.environ["PMI_FD"]))
