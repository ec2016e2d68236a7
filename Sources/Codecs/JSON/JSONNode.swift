/// Any JSON value (RFC 8259) with its place in the text, for documents whose members are not known beforehand, such as
/// configuration files.
package struct JSONNode: Sendable {
    /// What a value is.
    package enum Value: Sendable {
        case null
        case bool(Bool)
        case number(Double)
        case string(String)
        case array([JSONNode])
        /// The members in their order; a name may come twice.
        case object([JSONMember])
    }

    /// What it is.
    package let value: Value
    /// Where it stands, in bytes from the start of the text.
    package let range: Range<Int>

    /// Reads the one value that `bytes` hold, with white space around it at most.
    ///
    /// - Throws: the same errors as a message that is read within `limits`.
    package init(_ bytes: [UInt8], limits: CodecLimits) throws(CodecError) {
        guard bytes.count <= limits.maximumLength else { throw CodecError(.tooLong, at: limits.maximumLength) }
        self = try bytes.withUnsafeBufferPointer { bytes throws(CodecError) in
            guard let base = bytes.baseAddress else { throw CodecError(.truncated, at: 0) }
            var reader = JSONReader(base: base, count: bytes.count, limits: limits)
            defer { reader.release() }
            reader.skipWhiteSpace()
            let node = try reader.readNode()
            reader.skipWhiteSpace()
            guard reader.position == reader.end else { throw reader.failure(.trailingBytes) }
            return node
        }
    }

    fileprivate init(_ value: Value, _ range: Range<Int>) {
        self.value = value
        self.range = range
    }
}

/// A member of a JSON object.
package struct JSONMember: Sendable {
    /// Its name, without escapes.
    package let name: String
    /// Where its name begins, in bytes from the start of the text.
    package let offset: Int
    /// Its value.
    package let node: JSONNode
}

extension JSONReader {
    /// Reads a value of any type. No deeper than the limit, so that recursion is safe.
    fileprivate mutating func readNode() throws(CodecError) -> JSONNode {
        guard position < end else { throw failure(.truncated) }
        let start = position
        let value: JSONNode.Value =
            switch base[position] {
            case UInt8(ascii: "\""): .string(try readString())
            case UInt8(ascii: "{"): .object(try readMembers())
            case UInt8(ascii: "["): .array(try readNodes())
            case UInt8(ascii: "t"), UInt8(ascii: "f"): .bool(try readBool())
            case UInt8(ascii: "n"): try readNullNode()
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): .number(try readNumberNode())
            default: throw failure(.unexpectedCharacter)
            }
        return JSONNode(value, start..<position)
    }

    private mutating func readNullNode() throws(CodecError) -> JSONNode.Value {
        try expectWord("null")
        return .null
    }

    /// A number; one that no double can hold is an error at its beginning.
    private mutating func readNumberNode() throws(CodecError) -> Double {
        let number = try readNumber()
        do throws(CodecError) {
            return try double(number)
        } catch {
            throw CodecError(error.code, at: number.start)
        }
    }

    private mutating func readNodes() throws(CodecError) -> [JSONNode] {
        var nodes: [JSONNode] = []
        try open(UInt8(ascii: "["))
        var hasMore = try !closes(UInt8(ascii: "]"))
        while hasMore {
            try countElement(besides: nodes.count)
            nodes.append(try readNode())
            hasMore = try continues(before: UInt8(ascii: "]"))
        }
        depth -= 1
        return nodes
    }

    private mutating func readMembers() throws(CodecError) -> [JSONMember] {
        var members: [JSONMember] = []
        try open(UInt8(ascii: "{"))
        var hasMore = try !closes(UInt8(ascii: "}"))
        while hasMore {
            try countElement(besides: members.count)
            let start = position
            let name = try readString()
            try expectColon()
            members.append(JSONMember(name: name, offset: start, node: try readNode()))
            hasMore = try continues(before: UInt8(ascii: "}"))
        }
        depth -= 1
        return members
    }
}
