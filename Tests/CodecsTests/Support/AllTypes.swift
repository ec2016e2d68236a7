import Codecs

/// A message with every type of field.
struct AllTypes: WireMessage, Hashable {
    var bool = false
    var int32: Int32 = 0
    var int64: Int64 = 0
    var uint32: UInt32 = 0
    var uint64: UInt64 = 0
    var sint32: Int32 = 0
    var sint64: Int64 = 0
    var fixed32: UInt32 = 0
    var sfixed64: Int64 = 0
    var float: Float = 0
    var double: Double = 0
    var string = ""
    var bytes: [UInt8] = []
    var colour = Colour.red
    var inner: Inner?
    var maybeInt: Int32?
    var maybeString: String?
    var maybeColour: Colour?
    var ints: [Int32] = []
    var sints: [Int64] = []
    var fixeds: [UInt64] = []
    var floats: [Float] = []
    var doubles: [Double] = []
    var bools: [Bool] = []
    var colours: [Colour] = []
    var strings: [String] = []
    var blobs: [[UInt8]] = []
    var inners: [Inner] = []
    var byName: [String: Int64] = [:]
    var byNumber: [Int32: String] = [:]
    var byKey: [UInt64: Inner] = [:]
    var children: [AllTypes] = []
    var unknown = UnknownFields()

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(1, "bool", &bool)
        try visitor.field(2, "int32", &int32)
        try visitor.field(3, "int64", &int64)
        try visitor.field(4, "uint32", &uint32)
        try visitor.field(5, "uint64", &uint64)
        try visitor.field(6, "sint32", &sint32, as: .zigZag)
        try visitor.field(7, "sint64", &sint64, as: .zigZag)
        try visitor.field(8, "fixed32", &fixed32, as: .fixed)
        try visitor.field(9, "sfixed64", &sfixed64, as: .fixed)
        try visitor.field(10, "float", &float)
        try visitor.field(11, "double", &double)
        try visitor.field(12, "string", &string)
        try visitor.field(13, "bytes", &bytes)
        try visitor.field(14, "colour", &colour)
        try visitor.field(15, "inner", &inner)
        try visitor.field(16, "maybeInt", &maybeInt)
        try visitor.field(17, "maybeString", &maybeString)
        try visitor.field(18, "maybeColour", &maybeColour)
        try visitor.field(19, "ints", &ints)
        try visitor.field(20, "sints", &sints, as: .zigZag)
        try visitor.field(21, "fixeds", &fixeds, as: .fixed)
        try visitor.field(22, "floats", &floats)
        try visitor.field(23, "doubles", &doubles)
        try visitor.field(24, "bools", &bools)
        try visitor.field(25, "colours", &colours)
        try visitor.field(26, "strings", &strings)
        try visitor.field(27, "blobs", &blobs)
        try visitor.field(28, "inners", &inners)
        try visitor.field(29, "byName", &byName)
        try visitor.field(30, "byNumber", &byNumber)
        try visitor.field(31, "byKey", &byKey)
        try visitor.field(2000, "children", &children)
        try visitor.unknownFields(&unknown)
    }
}

struct Inner: WireMessage, Hashable {
    var number: Int32 = 0
    var snakeCase = ""

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(1, "number", &number)
        try visitor.field(2, "snakeCase", &snakeCase)
    }
}

struct Colour: WireEnum {
    var rawValue: Int32
    init(rawValue: Int32) { self.rawValue = rawValue }

    static let red = Colour(rawValue: 0)
    static let green = Colour(rawValue: 1)
    static let blue = Colour(rawValue: -5)
    static let names: [(number: Int32, name: StaticString)] = [
        (0, "COLOUR_RED"), (1, "COLOUR_GREEN"), (-5, "COLOUR_BLUE"),
    ]
}
