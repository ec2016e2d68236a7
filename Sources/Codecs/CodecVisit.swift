/// A visit of a message's fields by a codec of this package. Apps do not use it.
///
/// A codec makes its visits by way of ``WireMessage/perform(_:)``, which is a requirement, so that the module that
/// declares a message also contains the code that is specialised for it. A codec that is called from generic code then
/// makes one indirect call per message, not one per field.
public struct CodecVisit {
    /// The reader or writer that visits. It outlives the visit.
    @usableFromInline
    package enum Visitor {
        /// Writes the members of a JSON object, without its braces.
        case jsonWriter(UnsafeMutablePointer<JSONWriter>)
        /// Reads a JSON object.
        case jsonReader(UnsafeMutablePointer<JSONReader>)
        /// Writes protobuf fields.
        case protobufWriter(UnsafeMutablePointer<ProtobufWriter>)
        /// Reads protobuf fields up to the end of the reader's range.
        case protobufReader(UnsafeMutablePointer<ProtobufReader>)
        /// Writes the child elements of an XML element, without its tags.
        case xmlWriter(UnsafeMutablePointer<XMLWriter>)
        /// Reads the child elements of an XML element, and its end tag.
        case xmlReader(UnsafeMutablePointer<XMLReader>)
    }

    @usableFromInline package let visitor: Visitor

    @inlinable @inline(__always)
    init(_ visitor: Visitor) { self.visitor = visitor }
}

extension WireMessage {
    /// Makes the visit. Every message type shares this implementation.
    @inlinable
    public mutating func perform(_ visit: CodecVisit) throws(CodecError) {
        switch visit.visitor {
        case .jsonWriter(let writer): try visitFields(&writer.pointee)
        case .jsonReader(let reader): try reader.pointee.readFields(of: &self)
        case .protobufWriter(let writer): try visitFields(&writer.pointee)
        case .protobufReader(let reader): try reader.pointee.readFields(of: &self)
        case .xmlWriter(let writer): try visitFields(&writer.pointee)
        case .xmlReader(let reader): try reader.pointee.readFields(of: &self)
        }
    }
}

extension JSONWriter {
    /// Writes the members of a JSON object, without its braces.
    @inlinable @inline(__always)
    mutating func visit<M: WireMessage>(_ message: inout M) throws(CodecError) {
        try withUnsafeMutablePointer(to: &self) { writer throws(CodecError) in
            try message.perform(CodecVisit(.jsonWriter(writer)))
        }
    }
}

extension JSONReader {
    /// Reads a JSON object.
    @inlinable @inline(__always)
    mutating func visit<M: WireMessage>(_ message: inout M) throws(CodecError) {
        try withUnsafeMutablePointer(to: &self) { reader throws(CodecError) in
            try message.perform(CodecVisit(.jsonReader(reader)))
        }
    }
}

extension ProtobufWriter {
    /// Writes the fields.
    @inlinable @inline(__always)
    mutating func visit<M: WireMessage>(_ message: inout M) throws(CodecError) {
        try withUnsafeMutablePointer(to: &self) { writer throws(CodecError) in
            try message.perform(CodecVisit(.protobufWriter(writer)))
        }
    }
}

extension ProtobufReader {
    /// Reads the fields up to the end of the message.
    @inlinable @inline(__always)
    mutating func visit<M: WireMessage>(_ message: inout M) throws(CodecError) {
        try withUnsafeMutablePointer(to: &self) { reader throws(CodecError) in
            try message.perform(CodecVisit(.protobufReader(reader)))
        }
    }
}

extension XMLWriter {
    /// Writes the child elements of an element, without its tags.
    @inlinable @inline(__always)
    mutating func visit<M: WireMessage>(_ message: inout M) throws(CodecError) {
        try withUnsafeMutablePointer(to: &self) { writer throws(CodecError) in
            try message.perform(CodecVisit(.xmlWriter(writer)))
        }
    }
}

extension XMLReader {
    /// Reads the child elements of the current element, and its end tag.
    @inlinable @inline(__always)
    mutating func visit<M: WireMessage>(_ message: inout M) throws(CodecError) {
        try withUnsafeMutablePointer(to: &self) { reader throws(CodecError) in
            try message.perform(CodecVisit(.xmlReader(reader)))
        }
    }
}
