import Codecs
import Testing

/// Compares with Python's `xml.etree`, which reads by expat. Documents are the same if their canonical forms are (Canonical XML
/// 2.0). Messages are compared by their bytes in protobuf, because NaN differs from itself.
@Suite(.enabled(if: PythonPeer.isAvailable, "needs Python"), .serialized)
struct XMLCrossingTests {
    private let count = 10_000

    /// Messages whose texts have every kind of character that XML treats in a way of its own.
    private func messages(_ random: inout SeededGenerator) -> [AllTypes] {
        (0..<count).map { _ in
            var message = random.allTypes(depth: 1, oneIn: 12)
            message.maybeString = random.oneIn(2) ? random.markup() : nil
            message.strings += random.list { $0.markup() }
            for key in random.list({ $0.markup() }) { message.byName[key] = 1 }
            if random.oneIn(20) { (message.double, message.floats) = (.nan, [.nan, -.infinity]) }
            return message
        }
    }

    @Test("Python builds the same documents for 10,000 random messages as this package", arguments: [45])
    func written(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let messages = messages(&random)
        let answers = try PythonPeer.answers(
            to: try messages.flatMap { [try JSONCodec().encode($0), try XMLCodec().encode($0)] },
            script: XMLScripts.build
        )
        try #require(answers.count == messages.count * 2)
        for (index, message) in messages.enumerated() {
            let comment: Comment = "message \(index), seed \(seed)"
            let (theirs, ours) = (answers[index * 2], answers[index * 2 + 1])
            #expect(theirs == ours, comment)
            let read = try XMLCodec().decode(AllTypes.self, from: theirs)
            #expect(try ProtobufCodec().encode(read) == ProtobufCodec().encode(message), comment)
        }
    }

    @Test(
        "This package reads 10,000 documents of Python with all the ways in which XML writes the same content",
        arguments: [46]
    )
    func read(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let messages = messages(&random)
        let answers = try PythonPeer.answers(
            to: try messages.map { try JSONCodec().encode($0) },
            script: XMLScripts.vary,
            arguments: ["\(seed)"]
        )
        try #require(answers.count == messages.count)
        for (index, message) in messages.enumerated() {
            let document = answers[index]
            let comment: Comment = "message \(index), seed \(seed): \(String(decoding: document, as: UTF8.self))"
            let read = try? XMLCodec().decode(AllTypes.self, from: document)
            #expect(try read.map { try ProtobufCodec().encode($0) } == ProtobufCodec().encode(message), comment)
        }
    }

    @Test(
        "This package refuses what Python refuses of 10,000 damaged documents, except for prefixes without a declaration",
        arguments: [47]
    )
    func damaged(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let originals = (0..<count / 4).map { _ in random.allTypes(depth: 1, oneIn: 24) }
        let varied = try PythonPeer.answers(
            to: try originals.map { try JSONCodec().encode($0) },
            script: XMLScripts.vary,
            arguments: ["\(seed)"]
        )
        let documents = (0..<count).map { index in
            random.oneIn(2)
                ? random.damaged(varied[index % varied.count]) : random.damagedMarkup(varied[index % varied.count])
        }
        let answers = try PythonPeer.answers(to: documents, script: XMLScripts.judge)
        try #require(answers.count == documents.count)
        var counts = (read: 0, refused: 0, ofOtherType: 0, prefixes: 0)
        for (document, answer) in zip(documents, answers) {
            let reason = String(decoding: answer, as: UTF8.self)
            let comment: Comment = "seed \(seed): \(String(decoding: document, as: UTF8.self)), \(reason)"
            let isWellFormed = reason.isEmpty
            do throws(CodecError) {
                _ = try XMLCodec().decode(AllTypes.self, from: document)
                // A document may be well-formed and break the rules of namespaces, by a prefix or by a name that ends in a colon.
                let isPrefix = reason.contains("prefix") || document.contains(Array(":=".utf8))
                #expect(isWellFormed || isPrefix, comment)
                if isPrefix { counts.prefixes += 1 } else { counts.read += 1 }
            } catch {
                guard isWellFormed else {
                    counts.refused += 1
                    continue
                }
                counts.ofOtherType += 1
                // Python takes any version in a declaration, and XML 1.0 only one that begins with "1." (section 2.8).
                let isVersion = error.code == .unexpectedCharacter && error.offset < 20
                // The document is well-formed, and no message. A text that is not UTF-8 was base64.
                let ofOtherType: [CodecError.Code] = [
                    .wrongRoot, .wrongType, .invalidNumber, .numberOutOfRange, .invalidBase64, .missingKey,
                    .ambiguousKey,
                    .keyTooLong, .documentType, .unsupportedEncoding, .invalidUTF8,
                ]
                #expect(isVersion || ofOtherType.contains(error.code), "\(error), \(comment)")
            }
        }
        #expect(counts.read > 200 && counts.refused > 2000, "there are too few documents of one kind: \(counts)")
    }
}

extension SeededGenerator {
    /// A text that is mostly markup, white space and characters that XML does not allow.
    fileprivate mutating func markup() -> String {
        let alphabet = [
            "<", ">", "&", "\"", "'", "]]>", "\r", "\n", "\t", " ", "a", "é", "😀", "\u{85}", "\u{2028}", "\u{FFFD}",
            "&amp;",
            "<!--", "-->", "<![CDATA[", "\u{FEFF}", "\u{7F}", "你",
        ]
        var text = list { $0.list { alphabet.randomElement(using: &$0) ?? "?" }.joined() }.joined()
        if oneIn(8) {
            text += ["\u{0}", "\u{1}", "\u{B}", "\u{1F}", "\u{FFFE}", "\u{FFFF}"].randomElement(using: &self) ?? "?"
        }
        return text
    }

    /// `original` with pieces of markup inserted, replaced or removed.
    fileprivate mutating func damagedMarkup(_ original: [UInt8]) -> [UInt8] {
        let pieces = [
            "<", ">", "/", "&", ";", "\"", "'", "=", " ", "<a>", "</a>", "<a/>", "<!--", "-->", "--", "<?", "?>",
            "<![CDATA[",
            "]]>", "&amp;", "&x;", "&#x41;", "&#0;", "<a b='c'>", " b='c'", "<inner>", "</inner>", "\r", "-", "!", "?",
            "]",
        ]
        var bytes = original
        for _ in 0..<Int.random(in: 1...2, using: &self) {
            let start = Int.random(in: 0...bytes.count, using: &self)
            let end = min(bytes.count, start + (oneIn(2) ? 0 : Int.random(in: 0...6, using: &self)))
            bytes.replaceSubrange(start..<end, with: Array((pieces.randomElement(using: &self) ?? "<").utf8))
        }
        return bytes
    }
}

/// Scripts for Python's `xml.etree`.
private enum XMLScripts {
    /// Takes a message of ``AllTypes`` in JSON and in XML. Gives the canonical form of the document that it builds from the
    /// JSON, and that of the XML.
    static let build =
        tree + """
            while more():
                parts = []
                target = ElementTree.C14NWriterTarget(parts.append)
                send(target, element("message", json.loads(take(), parse_int=str, parse_float=str)))
                give("".join(parts).encode())
                give(ElementTree.canonicalize(take().decode()).encode())
            """

    /// Takes a message in JSON. Gives a document for it that uses references, sections, comments, instructions, quotes, white
    /// space and unknown elements at random. The second argument is the seed.
    static let vary =
        tree + #"""
            import random

            rng = random.Random(int(sys.argv[3]))

            def chance(n):
                return rng.randrange(n) == 0

            def reference(letter):
                return rng.choice([f"&#{ord(letter)};", f"&#x{ord(letter):x};", f"&#x00{ord(letter):X};"])

            named = {"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&apos;"}

            def escaped(text, always):
                parts = []
                for letter in text:
                    if letter in always or chance(30):
                        parts.append(named[letter] if letter in named and chance(2) else reference(letter))
                    elif letter == "\n" and "\n" not in always:
                        parts.append(rng.choice(["\n", "\n", "\r\n", "\r"]))
                    else:
                        parts.append(letter)
                return join(parts)

            def join(parts):
                text = ""
                for part in parts:
                    # A carriage return and a line feed would be one line end.
                    text += "&#10;" + part[1:] if part.startswith("\n") and text.endswith("\r") else part
                return text

            def content(text):
                parts, at = [], 0
                while at < len(text):
                    count = rng.randrange(1, 12)
                    piece = text[at:at + count]
                    at += count
                    if chance(4) and "]]>" not in piece and "\r" not in piece:
                        parts.append("<![CDATA[" + piece + "]]>")
                    else:
                        parts.append(escaped(piece, "<>&\r"))
                    parts.append(noise(8))
                return join(parts)

            def noise(n):
                if not chance(n):
                    return ""
                return rng.choice(["<!-- <a> & -->", "<?p <a> & ?>", "<!---->", "<?q?>"])

            def space():
                return rng.choice(["", "", "", " ", "\n", "\r\n\t "])

            def attribute(name, value):
                quote = rng.choice("\"'")
                between = rng.choice(["=", " = ", "\n="])
                return f"{name}{between}{quote}{escaped(value, '<&' + chr(9) + chr(10) + chr(13) + quote)}{quote}"

            def unknown():
                return rng.choice(["<unknown/>", "<u:x xmlns:u='urn:u'><a>&#65;</a><![CDATA[<]]></u:x>", "<other a='b'>x</other >"])

            def document(part):
                attributes = [attribute(name, value) for name, value in part.attributes.items()]
                if chance(10):
                    attributes.append("xmlns='urn:x'")
                if chance(10):
                    attributes.append("extra=\"<>\"".replace("<", "&lt;"))
                rng.shuffle(attributes)
                tag = "<" + part.name + "".join(rng.choice([" ", "\n", "\t\r\n"]) + each for each in attributes)
                if not part.text and not part.children and chance(2):
                    return tag + space() + "/>"
                tag += space() + ">"
                if part.isMessage:
                    inner = ""
                    for child in part.children:
                        inner += space() + noise(8) + (unknown() if chance(10) else "") + document(child)
                    inner += space() + noise(8)
                else:
                    inner = content(part.text)
                return tag + inner + "</" + part.name + space() + ">"

            while more():
                message = element("message", json.loads(take(), parse_int=str, parse_float=str))
                before = rng.choice(["", "", "\ufeff", "\n", "<?xml version='1.0'?>", "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n"])
                text = before + noise(4) + document(message) + space() + noise(4)
                ElementTree.fromstring(text.encode())
                give(text.encode())
            """#

    /// Takes bytes that may be broken. Gives nothing if they are a document, otherwise the reason why they are not.
    static let judge = """
        from xml.etree import ElementTree

        while more():
            try:
                ElementTree.fromstring(take())
                give(b"")
            except (ElementTree.ParseError, ValueError, LookupError) as error:
                give(str(error).encode())
        """

    /// The schema of `XMLCodec`, as a tree of elements for a message in JSON.
    private static let tree = """
        import base64, json, re
        from xml.etree import ElementTree

        forbidden = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
        floats = {"float", "double", "maybeDouble", "floats", "doubles", "byLong", "byTime"}
        maps = {
            "byName", "byNumber", "byKey", "byFlag", "byLong", "byCount", "colourByName", "deltaByNumber", "timeByName",
            "byDelta", "byOffset", "byWord", "byHash", "byPlace", "byTime",
        }

        class Part:
            def __init__(self, name):
                self.name, self.attributes, self.children, self.text, self.isMessage = name, {}, [], "", False

        def encoded(text):
            return base64.b64encode(text.encode()).decode()

        def element(name, value, key=None):
            part = Part(name)
            if key is not None:
                part.attributes["key"] = encoded(key) if forbidden.search(key) else key
                if forbidden.search(key):
                    part.attributes["keyEncoding"] = "base64"
            if isinstance(value, dict):
                part.isMessage = True
                for field, content in value.items():
                    if field in maps:
                        part.children += [element(field, each, key) for key, each in content.items()]
                    elif isinstance(content, list):
                        part.children += [element(field, each) for each in content]
                    else:
                        part.children.append(element(field, content))
            elif isinstance(value, bool):
                part.text = "true" if value else "false"
            elif name in floats:
                part.text = value.replace("Infinity", "INF")
            elif forbidden.search(value):
                part.attributes["encoding"] = "base64"
                part.text = encoded(value)
            else:
                part.text = value
            return part

        def send(target, part):
            target.start(part.name, part.attributes)
            if part.text:
                target.data(part.text)
            for child in part.children:
                send(target, child)
            target.end(part.name)


        """
}
