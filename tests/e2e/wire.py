"""Kiln's protocol in Python, written from docs/reference/messages.md and nothing else: what an independent or a hostile
peer sends and sees. Names of messages, fields and records are those of that page, which is read here."""
import hashlib
import hmac
import pathlib
import re
import select
import socket
import struct
import subprocess
import time

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
MAGIC, DATA, END, ZSTD = 0x314E4C4B, 127, 1, 4
ROLES = {"board": 1, "tuner": 2, "client": 3, "admin": 4, "builder": 5, "web": 6}
DEADLINE_S = 60


# ---- The page ----

class Field:
    def __init__(self, key, name, kind, limit, required):
        self.key, self.name, self.required = int(key), name, required == "required"
        self.record = re.sub(r"[\[\]`]", "", kind) if "`" in kind else None  # the name of the record that it holds
        self.many = kind.startswith("[")  # a list of records
        self.kind = "record" if self.record else kind
        self.limit = int(limit.split()[0]) if limit else None


class Message:
    def __init__(self, name, number, roles):
        self.name, self.number, self.roles, self.fields = name, number, roles, {}


def read_page():
    """Messages and records by name; a record is a dict of fields."""
    messages, records, fields = {}, {}, None
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"## (\w+)(?: \((\d+)\))?$", line):
            name, number = heading.groups()
            if number:
                message = messages[name] = Message(name, int(number), [])
            fields = message.fields if number else records.setdefault(name, {})
        elif fields is not None and (said := re.match(r"From ([\w, ]+?) to ", line)):
            message.roles = said.group(1).split(", ")
        elif fields is not None and re.match(r"\| \d+ \|", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            fields[cells[1]] = Field(*cells[:5])
    return messages, records


MESSAGES, RECORDS = read_page()
NAMES = {message.number: message.name for message in MESSAGES.values()}


# ---- msgpack ----

def pack(value):
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode(errors="surrogateescape")
        return b"\xdb" + struct.pack(">I", len(text)) + text
    if isinstance(value, (bytes, bytearray)):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


def unpack(data, at=0):
    """(value, where it ends)"""
    byte = data[at]
    take = lambda size: (int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size)

    def sequence(count, at):
        items = []
        for _ in range(count):
            item, at = unpack(data, at)
            items.append(item)
        return items, at

    def mapping(count, at):
        items, at = sequence(2 * count, at)
        return dict(zip(items[::2], items[1::2])), at

    text = lambda size, at: (data[at:at + size].decode(errors="surrogateescape"), at + size)
    if byte < 0x80:
        return byte, at + 1
    if byte >= 0xE0:
        return byte - 256, at + 1
    if byte < 0x90:
        return mapping(byte & 15, at + 1)
    if byte < 0xA0:
        return sequence(byte & 15, at + 1)
    if byte < 0xC0:
        return text(byte & 31, at + 1)
    if byte in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[byte], at + 1
    if byte in (0xC4, 0xC5, 0xC6):
        size, at = take(1 << (byte - 0xC4))
        return bytes(data[at:at + size]), at + size
    if byte in (0xCA, 0xCB):
        size = 4 if byte == 0xCA else 8
        return struct.unpack(">f" if size == 4 else ">d", data[at + 1:at + 1 + size])[0], at + 1 + size
    if 0xCC <= byte <= 0xCF:
        return take(1 << (byte - 0xCC))
    if 0xD0 <= byte <= 0xD3:
        size = 1 << (byte - 0xD0)
        return int.from_bytes(data[at + 1:at + 1 + size], "big", signed=True), at + 1 + size
    if byte in (0xD9, 0xDA, 0xDB):
        return text(*take(1 << (byte - 0xD9)))
    if byte in (0xDC, 0xDD):
        return sequence(*take(2 << (byte - 0xDC)))
    if byte in (0xDE, 0xDF):
        return mapping(*take(2 << (byte - 0xDE)))
    raise ValueError(f"msgpack {byte:#x} at {at}")


def body_of(fields, values):
    """Values by name, as the map of integer keys that travels. A name that the page does not have is an error of the test."""
    def one(field, value):
        if field.record and field.many:
            return [to_map(RECORDS[field.record], item) for item in value]
        return to_map(RECORDS[field.record], value) if field.record else value

    def to_map(fields, values):
        return {fields[name].key: one(fields[name], value) for name, value in values.items()}

    return pack(to_map(fields, values))


def values_of(fields, body):
    """The other way. Keys that the page does not have keep their number."""
    def one(field, value):
        if field.record and field.many:
            return [from_map(RECORDS[field.record], item) for item in value]
        return from_map(RECORDS[field.record], value) if field.record else value

    def from_map(fields, values):
        by_key = {field.key: field for field in fields.values()}
        return {by_key[k].name if k in by_key else k: one(by_key[k], v) if k in by_key else v for k, v in values.items()}

    return from_map(fields, unpack(body)[0])


def frame(number, body, stream=0, flags=0):
    return struct.pack("<IBBHII", MAGIC, number, flags, 0, stream, len(body)) + body


def message(name, /, stream=0, **values):
    """The bytes of one message."""
    return frame(MESSAGES[name].number, body_of(MESSAGES[name].fields, values), stream)


def blob_ref(data):
    return {"digest": hashlib.sha256(data).digest(), "size": len(data)}


# ---- A connection ----

class Closed(Exception):
    """The other side hung up."""


class Peer:
    """A connection to a tracker. `address`: HOST:PORT or unix:PATH. `source`: the address of this machine to come from."""

    def __init__(self, address, timeout=DEADLINE_S, source=None):
        self.input, self.child, self.timeout = b"", None, timeout
        self.address = address
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address[5:])
        else:
            host, port = address.rsplit(":", 1)
            self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout, (source, 0) if source else None)

    @classmethod
    def secured(cls, address, key_file, name=None, timeout=DEADLINE_S):
        """Over TLS 1.3 with the key of a file, by the program `openssl`; its standard streams are the connection. `name`:
        instead of the key's own."""
        line = next(l for l in pathlib.Path(key_file).read_text().splitlines() if re.match(r"\w+/", l))
        own, secret = line.split()[:2]
        self = cls.__new__(cls)
        self.input, self.address, self.timeout = b"", address, timeout
        ours, theirs = socket.socketpair()
        self.child = subprocess.Popen(["openssl", "s_client", "-connect", address, "-tls1_3", "-psk_identity", name or own, "-psk", secret,
                                       "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-quiet", "-nocommands"], stdin=theirs, stdout=theirs,
                                      stderr=subprocess.DEVNULL)
        theirs.close()
        self.socket = ours
        return self

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed(str(error)) from error

    def send(self, name, /, stream=0, **values):
        self.send_bytes(message(name, stream, **values))

    def data(self, stream, data, end=True, flags=0):
        self.send_bytes(frame(DATA, data, stream, flags | (END if end else 0)))

    def read_bytes(self, size):
        end = time.monotonic() + self.timeout
        while len(self.input) < size:
            if not select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"nothing came for {self.timeout} s")
            try:
                more = self.socket.recv(1 << 16)
            except OSError as error:
                raise Closed(str(error)) from error
            if not more:
                raise Closed("the end")
            self.input += more
        taken, self.input = self.input[:size], self.input[size:]
        return taken

    def read(self):
        """(name, stream, values) of the next frame; of DATA its bytes."""
        magic, number, flags, _, stream, size = struct.unpack("<IBBHII", self.read_bytes(16))
        assert magic == MAGIC, f"a frame that begins with {magic:#x}"
        assert not flags & ZSTD, "a compressed frame that was not agreed on"
        body = self.read_bytes(size)
        if number == DATA:
            return "DATA", stream, body
        return NAMES[number], stream, values_of(MESSAGES[NAMES[number]].fields, body)

    def expect(self, *names):
        """The values of the next message of one of these names; others are skipped, PINGs answered. An ERROR that was not
        asked for, about the connection, is raised."""
        while True:
            name, stream, values = self.read()
            if name in names:
                return values
            if name == "PING":
                self.send("PONG", stream, **values)
            if name == "ERROR" and stream == 0:
                raise AssertionError(f"ERROR {values}")

    def ask(self, name, expected, /, stream=0, **values):
        """Sends and waits: the answer's values, or those of the ERROR: (name, values)."""
        self.send(name, stream, **values)
        while True:
            got, on, answer = self.read()
            if got in (expected, "ERROR") and on == stream:
                return got, answer
            if got == "PING":
                self.send("PONG", on, **answer)

    def hello(self, role, node, token=None, versions=(1, 6), **more):
        """HELLO, and a proof of `token` (bytes) where one is given. Returns WELCOME's or ERROR's values: (name, values)."""
        nonce = hashlib.sha256(node.encode() + str(time.monotonic_ns()).encode()).digest()
        if token:
            more["nonce"] = nonce
        self.send("HELLO", version_min=versions[0], version_max=versions[1], role=ROLES[role], node=node, boot=nonce.hex()[:32], **more)
        name, _, values = self.read()
        if name == "CHALLENGE":
            terms = nonce + values["nonce"] + bytes([ROLES[role]]) + node.encode() + b"\0" + self.address.encode()
            told = hmac.new(token, b"kiln tracker\0" + terms, hashlib.sha256).digest()
            assert told == values["proof"], "the tracker's proof is wrong"
            self.send("PROOF", proof=hmac.new(token, b"kiln peer\0" + terms, hashlib.sha256).digest())
            name, _, values = self.read()
        return name, values

    def put_blob(self, data, stream):
        """Uploads within the credit that a stream begins with, and what WINDOW adds. Returns the answer: (name, values)."""
        self.send("BLOB_PUT", stream, blob=blob_ref(data))
        credit = 1 << 20
        while data:
            size = min(len(data), 1 << 16, credit)
            if size:
                self.data(stream, data[:size], end=size == len(data))
                data, credit = data[size:], credit - size
            while not credit or (not data and select.select([self.socket], [], [], 0)[0]):
                name, _, values = self.read()
                if name in ("ERROR", "BLOB_OK"):
                    return name, values
                credit += values["bytes"] if name == "WINDOW" else 0
        while True:
            name, on, values = self.read()
            if on == stream and name in ("ERROR", "BLOB_OK"):
                return name, values

    def is_closed(self):
        """Whether the other side hangs up, sooner or later; what it says until then is skipped."""
        try:
            while True:
                self.read()
        except Closed:
            return True
        except TimeoutError:
            return False

    def close(self):
        self.socket.close()
        if self.child:
            self.child.kill()
            self.child.wait()


def token_of(world):
    """The loopback token of a test's KILN_HOME; its first tracker has made it."""
    text = (pathlib.Path(world.home) / "token").read_bytes().strip()
    return bytes.fromhex(text.decode()) if len(text) == 64 else text
