/// Scripts for Google's protobuf for Python. The first argument is the name of a message in `peer_pb2`.
enum PythonScripts {
    /// Takes each message in protobuf and in JSON. Gives it in protobuf, in JSON, and in protobuf as read from our JSON.
    static let rewrite =
        start + """
            while more():
                message = cls.FromString(take())
                give(message.SerializeToString(deterministic=True))
                give(json_format.MessageToJson(message).encode())
                give(json_format.Parse(take(), cls()).SerializeToString(deterministic=True))
            """

    /// Takes each message as a literal (``DrawnValue``), in protobuf and in JSON. Gives the first difference between the
    /// literal and the protobuf, and between the literal and the JSON. Each is a sentence, or nothing. Then it gives the
    /// protobuf message in protobuf and in JSON.
    static let examine =
        start + """
            import ast

            def literal(field, value):
                if field.cpp_type == field.CPPTYPE_MESSAGE:
                    return literals(value)
                if field.cpp_type == field.CPPTYPE_STRING:
                    return value.hex() if field.type == field.TYPE_BYTES else value.encode().hex()
                if field.cpp_type == field.CPPTYPE_FLOAT:
                    return int.from_bytes(struct.pack("<f", value), "little")
                if field.cpp_type == field.CPPTYPE_DOUBLE:
                    return int.from_bytes(struct.pack("<d", value), "little")
                return value

            def literals(message):
                found = {}
                for field, value in message.ListFields():
                    if field.message_type and field.message_type.GetOptions().map_entry:
                        key, content = field.message_type.fields
                        value = {literal(key, each): literal(content, value[each]) for each in value}
                    elif isRepeated(field):
                        value = [literal(field, each) for each in value]
                    else:
                        value = literal(field, value)
                    found[field.number] = value
                return found

            def difference(drawn, found, path=()):
                if isinstance(drawn, dict) and isinstance(found, dict):
                    keys = list(drawn) + [key for key in found if key not in drawn]
                    pairs = [(key, drawn.get(key), found.get(key)) for key in keys]
                elif isinstance(drawn, list) and isinstance(found, list) and len(drawn) == len(found):
                    pairs = zip(range(len(drawn)), drawn, found)
                else:
                    isSame = type(drawn) is type(found) and drawn == found
                    return "" if isSame else f"{path}: {drawn!r} was drawn, {found!r} came"
                return next((text for key, a, b in pairs if (text := difference(a, b, path + (key,)))), "")

            while more():
                drawn = ast.literal_eval(take().decode())
                message = cls.FromString(take())
                give(difference(drawn, literals(message)).encode())
                give(difference(drawn, literals(json_format.Parse(take(), cls()))).encode())
                give(message.SerializeToString())
                give(json_format.MessageToJson(message).encode())
            """

    /// Takes bytes that may be broken. Gives nothing if it rejects them. Otherwise it gives the message without unknown
    /// fields after a byte 1, or after a byte 2 if it took map entries for unknown fields.
    static let judge =
        start + """
            from google.protobuf.unknown_fields import UnknownFieldSet

            maps = [f.number for f in cls.DESCRIPTOR.fields if f.message_type and f.message_type.GetOptions().map_entry]

            def losesEntries(message):
                isLost = any(field.field_number in maps and field.wire_type == 2 for field in UnknownFieldSet(message))
                return isLost or any(losesEntries(child) for child in message.children)

            while more():
                try:
                    message = cls.FromString(take())
                    mark = b"\\2" if losesEntries(message) else b"\\1"
                    message.DiscardUnknownFields()
                    give(mark + message.SerializeToString(deterministic=True))
                except DecodeError:
                    give(b"")
            """

    /// Makes random messages. The second argument is their number, the third is the seed. Each consists of one message or
    /// of two that merge. Gives the concatenated bytes, the merged message in protobuf, and the merged message in JSON.
    static let invent =
        start + #"""
            import math, random

            rng = random.Random(int(sys.argv[5]))
            letters = ["a", "Z", "7", " ", "\"", "\\", "/", "\n", "\0", "\x7f", "é", "你", "😀", "\u2028", "\uffff"]

            def scalar(field):
                kind = field.cpp_type
                if kind == field.CPPTYPE_BOOL:
                    return rng.random() < 0.5
                if kind == field.CPPTYPE_ENUM:
                    return rng.choice([0, 1, -5, 99, -2**31, 2**31 - 1])
                if kind == field.CPPTYPE_STRING:
                    if field.type == field.TYPE_BYTES:
                        return rng.randbytes(rng.randrange(20))
                    return "".join(rng.choices(letters, k=rng.randrange(12)))
                if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
                    layout = "<d" if kind == field.CPPTYPE_DOUBLE else "<f"
                    (value,) = struct.unpack(layout, rng.randbytes(struct.calcsize(layout)))
                    value = rng.choice([value, -0.0, 0.5, math.inf, -math.inf, 1e22, float(rng.randrange(1000))])
                    return math.nan if math.isnan(value) else value
                bits = 32 if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
                isSigned = kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
                value = rng.getrandbits(rng.randrange(bits - isSigned + 1))
                return ~value if isSigned and rng.random() < 0.5 else value

            def fill(message, depth, chance):
                for field in message.DESCRIPTOR.fields:
                    if rng.random() > chance:
                        continue
                    isMessage = field.cpp_type == field.CPPTYPE_MESSAGE
                    target = getattr(message, field.name)
                    if isMessage and field.message_type.GetOptions().map_entry:
                        key, value = field.message_type.fields
                        for _ in range(rng.randrange(4)):
                            if value.cpp_type == field.CPPTYPE_MESSAGE:
                                fill(target[scalar(key)], depth, 0.7)
                            else:
                                target[scalar(key)] = scalar(value)
                    elif isRepeated(field):
                        if isMessage and depth > 0:
                            for _ in range(rng.randrange(3)):
                                fill(target.add(), depth - 1, chance)
                        elif not isMessage:
                            target.extend(scalar(field) for _ in range(rng.randrange(4)))
                    elif isMessage:
                        target.SetInParent()
                        fill(target, depth, 0.7)
                    else:
                        setattr(message, field.name, scalar(field))

            for _ in range(int(sys.argv[4])):
                joined = b""
                for _ in range(rng.randrange(1, 3)):
                    message = cls()
                    fill(message, 1, 0.15)
                    joined += message.SerializeToString()
                merged = cls.FromString(joined)
                give(joined)
                give(merged.SerializeToString(deterministic=True))
                give(json_format.MessageToJson(merged).encode())
            """#

    private static let start = """
        import peer_pb2
        from google.protobuf import json_format
        from google.protobuf.message import DecodeError

        cls = getattr(peer_pb2, sys.argv[3])

        def isRepeated(field):
            # Version 7 has no labels any more.
            return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


        """
}
