/// How the codecs of this package visit the fields of one message type. Apps do not use it.
///
/// It is a requirement of ``WireMessage`` so that the module that declares a message also contains the code that is
/// specialised for it. A codec that is called from generic code then makes one indirect call per message, not one per
/// field.
public struct FieldCoding<Message: WireMessage>: Sendable {
    /// A visit that reads into a message or writes it.
    @usableFromInline
    package typealias Visit<Visitor> = @Sendable (inout Message, inout Visitor) throws(CodecError) -> Void

    /// Writes the members of a JSON object, without its braces.
    @usableFromInline package var writeJSON: Visit<JSONWriter>
    /// Reads a JSON object.
    @usableFromInline package var readJSON: Visit<JSONReader>
    /// Writes protobuf fields.
    @usableFromInline package var writeProtobuf: Visit<ProtobufWriter>
    /// Reads protobuf fields up to the end of the reader's range.
    @usableFromInline package var readProtobuf: Visit<ProtobufReader>

    @inlinable @inline(__always)
    package init() {
        writeJSON = { message, writer throws(CodecError) in try message.visitFields(&writer) }
        readJSON = { message, reader throws(CodecError) in try reader.readFields(of: &message) }
        writeProtobuf = { message, writer throws(CodecError) in try message.visitFields(&writer) }
        readProtobuf = { message, reader throws(CodecError) in try reader.readFields(of: &message) }
    }
}
