import Primitives
import TransportAPI

/// A prefix of names, and the namespace that it stands for. The empty prefix is that of names without one.
struct XMPPBinding: Sendable, Hashable {
    var prefix: String
    var namespace: String
}

/// Reads one part of a stream, whose ends ``XMPPStreamReader`` has found (XML 1.0, fifth edition; Namespaces in XML 1.0).
struct XMPPElementReader {
    /// An element whose end tag has not come.
    private struct Open {
        var element: XMPPElement
        /// Its name as it was written.
        var name: Range<Int>
        /// How many namespaces it declares.
        var bindings: Int
    }

    private let bytes: UnsafeBufferPointer<UInt8>
    private let limits: XMPPStreamReader.Limits
    private var position = 0
    /// The namespaces that are declared here, the innermost last.
    private(set) var bindings: [XMPPBinding]
    /// How many of them are declared outside of the part.
    private let outerBindings: Int

    /// Creates a reader of one complete part.
    init(_ bytes: UnsafeBufferPointer<UInt8>, _ limits: XMPPStreamReader.Limits, _ bindings: [XMPPBinding]) {
        (self.bytes, self.limits, self.bindings) = (bytes, limits, bindings)
        outerBindings = bindings.count
    }

    /// Checks an XML declaration. The only encoding is UTF-8 (RFC 6120, section 11.6).
    static func checkDeclaration(_ bytes: UnsafeBufferPointer<UInt8>) throws(XMPPFault) {
        let name: StaticString = "<?xml"
        guard bytes.starts(with: UnsafeBufferPointer(start: name.utf8Start, count: 5)), bytes.count > 7,
            XMLSyntax.isWhiteSpace(bytes[5])
        else { throw .restricted("a processing instruction") }
        let text = String(decoding: bytes, as: UTF8.self).lowercased()
        let words = text.split { " \t\r\n='\"?>".contains($0) }
        guard let encoding = words.firstIndex(of: "encoding"), encoding + 1 < words.count else { return }
        guard words[encoding + 1] == "utf-8" else {
            let seen = String(excerptOf: words[encoding + 1].utf8)
            throw XMPPFault("unsupported-encoding", "the peer's encoding is '\(seen)', expected was UTF-8")
        }
    }

    // MARK: Elements

    /// Reads the start tag of a stream.
    mutating func readHeader() throws(XMPPFault) -> XMPPElement {
        try checkCharacters()
        return try readStartTag().open.element
    }

    /// Reads an element with everything in it.
    mutating func readElement() throws(XMPPFault) -> XMPPElement {
        try checkCharacters()
        var stack: [Open] = []
        while position < bytes.count {
            guard bytes[position] == UInt8(ascii: "<") else {
                try readText(into: &stack)
                continue
            }
            switch at(position + 1) {
            case UInt8(ascii: "/"): try readEndTag(of: stack.last)
            case UInt8(ascii: "!"):
                readSection(into: &stack)
                continue
            default:
                let (open, isEmpty) = try readStartTag()
                stack.append(open)
                guard isEmpty else { continue }
            }
            guard let ended = stack.popLast() else { break }
            bindings.removeLast(ended.bindings)
            guard !stack.isEmpty else { return ended.element }
            stack[stack.count - 1].element.children.append(ended.element)
        }
        throw .malformed("the peer sent an element that does not end")
    }

    /// Checks that the part is UTF-8 without characters that XML forbids.
    private func checkCharacters() throws(XMPPFault) {
        guard UTF8Blocks.areWellFormed(bytes) else {
            throw XMPPFault("bad-format", "the peer sent bytes that are not UTF-8", code: .invalidText)
        }
        for index in bytes.indices where XMLSyntax.isForbidden(bytes, at: index) {
            throw .malformed("the peer sent a character that XML forbids")
        }
    }

    private func at(_ index: Int) -> UInt8 { index < bytes.count ? bytes[index] : 0 }

    /// Reads a start tag. Returns it, and whether it is the whole element.
    private mutating func readStartTag() throws(XMPPFault) -> (open: Open, isEmpty: Bool) {
        position += 1
        let name = try readName()
        var attributes: [XMPPAttribute] = []
        var seen: [Range<Int>] = []
        let before = bindings.count
        var isEmpty = false
        while true {
            let isSeparate = skipSpace()
            if at(position) == UInt8(ascii: ">") { break }
            if at(position) == UInt8(ascii: "/") {
                isEmpty = true
                position += 1
                break
            }
            guard isSeparate else { throw .malformed("the peer sent attributes without space between them") }
            guard seen.count < limits.attributes else {
                throw .excess("the peer sent an element of more than \(limits.attributes) attributes")
            }
            let own = try readName()
            guard !seen.contains(where: { isSame($0, own) }) else {
                throw .malformed("the peer sent an attribute twice")
            }
            seen.append(own)
            try take(XMPPAttribute(text(own), try readValue()), into: &attributes)
        }
        try expect(UInt8(ascii: ">"))
        var element = try named(name)
        element.attributes = attributes
        return (Open(element: element, name: name, bindings: bindings.count - before), isEmpty)
    }

    /// Takes an attribute, or the namespace that it declares.
    private mutating func take(_ attribute: XMPPAttribute, into attributes: inout [XMPPAttribute]) throws(XMPPFault) {
        if attribute.name.hasSameBytes(as: "xmlns") {
            return try declare(XMPPBinding(prefix: "", namespace: attribute.value))
        }
        guard attribute.name.utf8.starts(with: "xmlns:".utf8) else { return attributes.append(attribute) }
        let prefix = String(attribute.name.dropFirst(6))
        guard !prefix.isEmpty, !attribute.value.isEmpty, !["xml", "xmlns"].contains(prefix), !prefix.contains(":")
        else { throw XMPPFault("bad-namespace-prefix", "the peer declared a namespace that cannot be declared") }
        try declare(XMPPBinding(prefix: prefix, namespace: attribute.value))
    }

    private mutating func declare(_ binding: XMPPBinding) throws(XMPPFault) {
        guard bindings.count - outerBindings < limits.namespaces else {
            throw .excess("the peer sent an element to which more than \(limits.namespaces) namespaces apply")
        }
        bindings.append(binding)
    }

    /// The element of a name, with the namespace that its prefix stands for.
    private func named(_ range: Range<Int>) throws(XMPPFault) -> XMPPElement {
        let colon = bytes[range].firstIndex(of: UInt8(ascii: ":"))
        let prefix = colon.map { text(range.lowerBound..<$0) } ?? ""
        let name = colon.map { text($0 + 1..<range.upperBound) } ?? text(range)
        let isQualified = colon == nil || !prefix.isEmpty && !name.isEmpty && !name.utf8.contains(UInt8(ascii: ":"))
        let binding = bindings.last { $0.prefix.hasSameBytes(as: prefix) }
        guard isQualified, binding != nil || prefix.isEmpty else {
            let seen = String(excerptOf: bytes[range])
            throw XMPPFault("bad-namespace-prefix", "the peer sent the element '\(seen)', whose prefix is not declared")
        }
        return XMPPElement(name, binding?.namespace ?? "")
    }

    private mutating func readEndTag(of open: Open?) throws(XMPPFault) {
        position += 2
        let name = try readName()
        _ = skipSpace()
        try expect(UInt8(ascii: ">"))
        guard let open, isSame(open.name, name) else {
            throw .malformed("the peer sent the end tag of another element")
        }
    }

    // MARK: Text

    /// Reads text up to the next tag. The ends of lines become line feeds (XML 1.0, section 2.11).
    private mutating func readText(into stack: inout [Open]) throws(XMPPFault) {
        guard let top = stack.indices.last else { throw .malformed("the peer sent text between elements") }
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "<"): return
            case UInt8(ascii: "&"): stack[top].element.text.append(contentsOf: try readReference())
            case UInt8(ascii: "\r"): stack[top].element.text.append(takeLineEnd())
            case UInt8(ascii: ">")
            where position >= start + 2 && at(position - 1) == UInt8(ascii: "]")
                && at(position - 2) == UInt8(ascii: "]"):
                throw .malformed("the peer sent ']]>' in a text")
            default:
                let run = position
                position += 1
                while position < bytes.count, !Self.isMark(bytes[position]) { position &+= 1 }
                stack[top].element.text.append(contentsOf: bytes[run..<position])
            }
        }
    }

    private static func isMark(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "<") || byte == UInt8(ascii: "&") || byte == UInt8(ascii: "\r")
            || byte == UInt8(ascii: ">")
    }

    /// Passes a carriage return, and a line feed after it.
    private mutating func takeLineEnd() -> UInt8 {
        position += at(position + 1) == UInt8(ascii: "\n") ? 2 : 1
        return UInt8(ascii: "\n")
    }

    /// Reads a CDATA section, whose ends the scan has found.
    private mutating func readSection(into stack: inout [Open]) {
        position += 9
        let top = stack.count - 1
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: "]"), at(position + 1) == byte, at(position + 2) == UInt8(ascii: ">") {
                position += 3
                return
            }
            if byte == UInt8(ascii: "\r") {
                stack[top].element.text.append(takeLineEnd())
            } else {
                stack[top].element.text.append(byte)
                position += 1
            }
        }
    }

    /// Reads the value of an attribute. White space becomes spaces, unless it is written as a reference (section 3.3.3).
    private mutating func readValue() throws(XMPPFault) -> String {
        _ = skipSpace()
        try expect(UInt8(ascii: "="))
        _ = skipSpace()
        let quote = at(position)
        guard quote == UInt8(ascii: "'") || quote == UInt8(ascii: "\"") else {
            throw .malformed("the peer sent an attribute without quotes")
        }
        position += 1
        var value: [UInt8] = []
        while at(position) != quote {
            guard position < bytes.count else { throw .malformed("the peer sent an attribute that does not end") }
            switch bytes[position] {
            case UInt8(ascii: "&"): value.append(contentsOf: try readReference())
            case UInt8(ascii: "\r"):
                _ = takeLineEnd()
                value.append(0x20)
            case let byte:
                value.append(byte < 0x20 ? 0x20 : byte)
                position += 1
            }
        }
        position += 1
        return String(decoding: value, as: UTF8.self)
    }

    /// Reads a reference to a character or to one of the five entities of XML (sections 4.1 and 4.6).
    private mutating func readReference() throws(XMPPFault) -> String.UTF8View {
        // The longest reference is that of a character with some leading zeros.
        let end = bytes[position...].prefix(16).firstIndex(of: UInt8(ascii: ";"))
        guard let end else { throw .malformed("the peer sent '&' without the ';' of a reference") }
        let name = text(position + 1..<end)
        position = end + 1
        switch name {
        case "lt": return "<".utf8
        case "gt": return ">".utf8
        case "amp": return "&".utf8
        case "quot": return "\"".utf8
        case "apos": return "'".utf8
        default: break
        }
        guard name.utf8.first == UInt8(ascii: "#") else { throw .restricted("a reference to an entity") }
        let isHexadecimal = name.utf8.dropFirst().first == UInt8(ascii: "x")
        let digits = name.dropFirst(isHexadecimal ? 2 : 1)
        let isNumber = digits.utf8.first.map { $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") } ?? false
        guard isNumber, let value = UInt32(digits, radix: isHexadecimal ? 16 : 10), XMLSyntax.isAllowed(value),
            let scalar = Unicode.Scalar(value)
        else { throw .malformed("the peer sent a reference to no character of XML") }
        return String(Character(scalar)).utf8
    }

    // MARK: Names

    private mutating func readName() throws(XMPPFault) -> Range<Int> {
        let count = XMLSyntax.lengthOfName(UnsafeBufferPointer(rebasing: bytes[position...]))
        guard count > 0 else { throw .malformed("the peer sent a tag or an attribute without a name") }
        defer { position += count }
        return position..<position + count
    }

    /// Skips white space. Returns whether there was any.
    private mutating func skipSpace() -> Bool {
        let start = position
        while position < bytes.count, XMLSyntax.isWhiteSpace(bytes[position]) { position &+= 1 }
        return position > start
    }

    private mutating func expect(_ byte: UInt8) throws(XMPPFault) {
        guard at(position) == byte else {
            let expected = Character(Unicode.Scalar(byte))
            throw .malformed("the peer sent a tag without the '\(expected)' that was expected")
        }
        position += 1
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    private func isSame(_ left: Range<Int>, _ right: Range<Int>) -> Bool { bytes[left].elementsEqual(bytes[right]) }
}
