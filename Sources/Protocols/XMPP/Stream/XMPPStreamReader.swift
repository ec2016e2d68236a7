import Primitives
import TransportAPI

/// Cuts a byte stream into the parts of an XML stream (RFC 6120, section 4), and reads each part when it is complete: the
/// start tag of the stream, its first-level elements, and its end tag.
///
/// Each byte is scanned once, however the stream is cut, and every limit is checked before memory is taken. White space
/// between elements is the keepalive of XMPP and is skipped. Comments, processing instructions, document types and
/// entities other than the five of XML are errors (section 11.1), so nothing in a stream expands.
package struct XMPPStreamReader: Sendable {
    /// The limits of received elements.
    package struct Limits: Sendable, Hashable {
        /// The largest first-level element, in bytes; 64 KiB by default.
        package var stanza = 64 << 10
        /// The longest tag, in bytes; 16 KiB by default. It bounds the attributes of an element.
        package var tag = 16 << 10
        /// How deep elements may be, counted from 1 for those of the first level; 16 by default.
        package var depth = 16
        /// The most elements of a first-level element, itself among them; 256 by default.
        package var elements = 256
        /// The most attributes of an element, with declarations of namespaces; 32 by default.
        package var attributes = 32
        /// The most declarations of namespaces that apply to an element, without those of the stream; 32 by default. Each
        /// name is looked up among them.
        package var namespaces = 32

        /// Creates the default limits.
        package init() {}
    }

    /// A complete part of the stream.
    package enum Part: Sendable, Hashable {
        /// The start tag of the stream.
        case header(XMPPElement)
        /// A first-level element: a stanza, or one of the protocol itself.
        indirect case element(XMPPElement)
        /// The end tag of the stream.
        case end
    }

    /// Where the scan is in the syntax.
    private enum Place: Sendable, Hashable {
        /// Before a part of the stream.
        case between
        /// In the text of an element.
        case text
        /// After `<`.
        case angle
        /// In a start tag, outside of values.
        case tag
        /// After `/` in a start tag.
        case slash
        /// In the value of an attribute, up to this quote.
        case value(UInt8)
        /// In an end tag.
        case endTag
        /// After `<!`.
        case exclamation
        /// In `<![CDATA[`; so many of its bytes after `<!` have come.
        case section(Int)
        /// In a CDATA section, after so many brackets.
        case data(Int)
        /// In the XML declaration. Whether the last byte is a question mark.
        case declaration(Bool)
    }

    /// What a scan has found at the front of the bytes.
    private enum Cut {
        /// All bytes belong to a part that is not complete.
        case all
        /// So many bytes of white space.
        case space(Int)
        /// The XML declaration, which ends after so many bytes.
        case declaration(Int)
        /// A part of the stream, which ends after so many bytes.
        case header(Int)
        case element(Int)
        case end(Int)
    }

    /// The limits. A side that has accepted the other one may raise them.
    package var limits: Limits
    private var place = Place.between
    /// How many elements are open. The stream itself is the first.
    private var depth = 0
    private var elements = 0
    /// The length of the current tag so far.
    private var tag = 0
    private var hasDeclaration = false
    /// The namespaces that the start tag of the stream declares.
    private var bindings: [XMPPBinding] = []
    /// The beginning of a part that has not arrived whole.
    private var pending: [UInt8] = []
    /// The white space between parts.
    private var space = BlankBytes()

    /// Creates a reader at the beginning of a stream.
    package init(_ limits: Limits = Limits()) {
        self.limits = limits
    }

    /// The memory of a part that has not arrived whole, in bytes.
    package var bufferedBytes: Int { pending.capacity }

    /// Whether no byte of a further part has arrived.
    package var isBetweenParts: Bool { place == .between }

    /// Whether the start tag of the stream has not arrived whole.
    package var isBeforeHeader: Bool { depth == 0 }

    /// Takes the work of white space since the last call (``CoreCounters/controlWork``).
    mutating func takeSpaceWork() -> UInt64 { space.takeWork() }

    /// Begins a new stream, as after authentication (RFC 6120, section 6.4.6).
    package mutating func restart() {
        self = XMPPStreamReader(limits)
    }

    /// Takes the next part from `input`. Returns `nil` if it has not arrived whole. After an error it must not be called
    /// again.
    mutating func next(_ input: inout ByteBuffer) throws(XMPPFault) -> Part? {
        while !input.isEmpty {
            // Nothing beyond the limit is looked at, so that an error does not depend on how the stream is cut.
            let size = min(input.count, limits.stanza - pending.count)
            let cut = try input.withUnsafeReadableBytes { (bytes) throws(XMPPFault) in
                try scan(UnsafeRawBufferPointer(rebasing: bytes[..<size]).assumingMemoryBound(to: UInt8.self))
            }
            switch cut {
            case .all:
                guard size == input.count else {
                    throw .excess("the peer sent an element of more than \(limits.stanza) bytes")
                }
                keep(size, of: &input)
                return nil
            case .space(let count):
                input.consume(count)
                space.add(count)
            case .declaration(let count):
                try read(count, of: &input) { (bytes, _, _) throws(XMPPFault) in
                    try XMPPElementReader.checkDeclaration(bytes)
                }
                hasDeclaration = true
            case .header(let count):
                return .header(
                    try read(count, of: &input) { (bytes, limits, bindings) throws(XMPPFault) in
                        var reader = XMPPElementReader(bytes, limits, [])
                        let header = try reader.readHeader()
                        bindings = reader.bindings
                        return header
                    }
                )
            case .element(let count):
                return .element(
                    try read(count, of: &input) { (bytes, limits, bindings) throws(XMPPFault) in
                        var reader = XMPPElementReader(bytes, limits, bindings)
                        return try reader.readElement()
                    }
                )
            case .end(let count):
                input.consume(count)
                pending = []
                return .end
            }
        }
        return nil
    }

    /// Moves the first `count` bytes of the input to those that wait.
    private mutating func keep(_ count: Int, of input: inout ByteBuffer) {
        input.withUnsafeReadableBytes { pending.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        input.consume(count)
    }

    /// Calls `body` with a part of the stream, which ends after `count` bytes of the input, and removes it.
    private mutating func read<R>(
        _ count: Int,
        of input: inout ByteBuffer,
        _ body: (UnsafeBufferPointer<UInt8>, Limits, inout [XMPPBinding]) throws(XMPPFault) -> R
    ) throws(XMPPFault) -> R {
        let result: R
        if pending.isEmpty {
            result = try input.withUnsafeReadableBytes { (bytes) throws(XMPPFault) in
                let part = UnsafeRawBufferPointer(rebasing: bytes[..<count]).assumingMemoryBound(to: UInt8.self)
                return try body(part, limits, &bindings)
            }
            input.consume(count)
        } else {
            keep(count, of: &input)
            let bytes = pending
            pending = []
            result = try bytes.withUnsafeBufferPointer { (part) throws(XMPPFault) in
                try body(part, limits, &bindings)
            }
        }
        return result
    }

    // MARK: Scanning

    /// Finds the end of the current part, which continues with `bytes`.
    private mutating func scan(_ bytes: UnsafeBufferPointer<UInt8>) throws(XMPPFault) -> Cut {
        var index = 0
        if place == .between {
            while index < bytes.count, XMLSyntax.isWhiteSpace(bytes[index]) { index += 1 }
            if index > 0 { return .space(index) }
            guard let first = bytes.first else { return .all }
            guard first == UInt8(ascii: "<") else {
                let seen = String(excerptOf: [first])
                throw .malformed("the peer sent '\(seen)' between elements, expected was '<'")
            }
            (place, elements, tag, index) = (.angle, 0, 1, 1)
            space.endRow()
        }
        while index < bytes.count {
            let start = index
            switch place {
            case .text, .data:
                if let cut = try step(bytes, &index) { return cut }
                // The bracket that has ended the text.
                tag = 1
            case .between, .angle, .tag, .slash, .value, .endTag, .exclamation, .section, .declaration:
                let end = min(bytes.count, index + limits.tag - tag)
                guard index < end else { throw .excess("the peer sent a tag of more than \(limits.tag) bytes") }
                let cut = try step(UnsafeBufferPointer(rebasing: bytes[..<end]), &index)
                tag += index - start
                if let cut { return cut }
            }
        }
        return .all
    }

    /// Passes the bytes of one place.
    private mutating func step(_ bytes: UnsafeBufferPointer<UInt8>, _ index: inout Int) throws(XMPPFault) -> Cut? {
        switch place {
        case .between: return nil
        case .text:
            while index < bytes.count, bytes[index] != UInt8(ascii: "<") { index &+= 1 }
            guard index < bytes.count else { return nil }
            index += 1
            place = .angle
        case .angle:
            try beginTag(bytes[index])
            index += 1
        case .tag: return try passTag(bytes, &index)
        case .slash:
            guard bytes[index] == UInt8(ascii: ">") else { throw .malformed("the peer sent '/' inside a tag") }
            guard depth > 0 else { throw .malformed("the peer ended the stream in its first tag") }
            index += 1
            return endElement(at: index)
        case .value(let quote):
            while index < bytes.count, bytes[index] != quote {
                guard bytes[index] != UInt8(ascii: "<") else { throw .malformed("the peer sent '<' in an attribute") }
                index &+= 1
            }
            guard index < bytes.count else { return nil }
            index += 1
            place = .tag
        case .endTag:
            while index < bytes.count, bytes[index] != UInt8(ascii: ">") { index &+= 1 }
            guard index < bytes.count else { return nil }
            index += 1
            depth -= 1
            guard depth > 0 else {
                place = .between
                return .end(index)
            }
            return endElement(at: index)
        case .exclamation:
            guard bytes[index] == UInt8(ascii: "[") else {
                throw .restricted(bytes[index] == UInt8(ascii: "-") ? "a comment" : "a document type declaration")
            }
            guard depth > 1 else { throw .malformed("the peer sent a CDATA section between elements") }
            index += 1
            place = .section(1)
        case .section(let count):
            let opening: StaticString = "[CDATA["
            guard bytes[index] == opening.utf8Start[count] else { throw .malformed("the peer sent '<![', no CDATA") }
            index += 1
            place = count + 1 == opening.utf8CodeUnitCount ? .data(0) : .section(count + 1)
        case .data(let brackets):
            let byte = bytes[index]
            index += 1
            if byte == UInt8(ascii: "]") {
                place = .data(min(brackets + 1, 2))
            } else {
                place = byte == UInt8(ascii: ">") && brackets == 2 ? .text : .data(0)
            }
        case .declaration(let isQuestion):
            let byte = bytes[index]
            index += 1
            guard isQuestion, byte == UInt8(ascii: ">") else {
                place = .declaration(byte == UInt8(ascii: "?"))
                return nil
            }
            place = .between
            return .declaration(index)
        }
        return nil
    }

    /// Handles the byte after `<`.
    private mutating func beginTag(_ byte: UInt8) throws(XMPPFault) {
        switch byte {
        case UInt8(ascii: "/"):
            guard depth > 0 else { throw .malformed("the peer ended an element before it began one") }
            place = .endTag
        case UInt8(ascii: "!"): place = .exclamation
        case UInt8(ascii: "?"):
            guard depth == 0, !hasDeclaration else { throw .restricted("a processing instruction") }
            place = .declaration(false)
        default:
            elements += 1
            guard elements <= limits.elements else {
                throw .excess("the peer sent a stanza of more than \(limits.elements) elements")
            }
            guard depth <= limits.depth else {
                throw .excess("the peer sent elements that are more than \(limits.depth) levels deep")
            }
            place = .tag
        }
    }

    private mutating func passTag(_ bytes: UnsafeBufferPointer<UInt8>, _ index: inout Int) throws(XMPPFault) -> Cut? {
        while index < bytes.count {
            let byte = bytes[index]
            index &+= 1
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "'"):
                place = .value(byte)
                return nil
            case UInt8(ascii: "/"):
                place = .slash
                return nil
            case UInt8(ascii: "<"): throw .malformed("the peer sent '<' inside a tag")
            case UInt8(ascii: ">"):
                depth += 1
                guard depth > 1 else {
                    place = .between
                    return .header(index)
                }
                place = .text
                return nil
            default: break
            }
        }
        return nil
    }

    /// An element inside the stream has ended before `index`.
    private mutating func endElement(at index: Int) -> Cut? {
        place = depth == 1 ? .between : .text
        return depth == 1 ? .element(index) : nil
    }
}
