import Codecs

/// A message with every type of field. Its schema is ``proto``.
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
    var sfixed32: Int32 = 0
    var fixed64: UInt64 = 0
    var maybeDouble: Double?
    var maybeBytes: [UInt8]?
    var longs: [Int64] = []
    var counts: [UInt32] = []
    var sizes: [UInt64] = []
    var deltas: [Int32] = []
    var words: [UInt32] = []
    var offsets: [Int32] = []
    var times: [Int64] = []
    var byFlag: [Bool: Bool] = [:]
    var byLong: [Int64: Double] = [:]
    var byCount: [UInt32: [UInt8]] = [:]
    var colourByName: [String: Colour] = [:]
    var deltaByNumber: [Int32: Int32] = [:]
    var timeByName: [String: Int64] = [:]
    var byDelta: [Int32: Bool] = [:]
    var byOffset: [Int64: Int64] = [:]
    var byWord: [UInt32: String] = [:]
    var byHash: [UInt64: Inner] = [:]
    var byPlace: [Int32: [UInt8]] = [:]
    var byTime: [Int64: Double] = [:]
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
        try visitor.field(32, "sfixed32", &sfixed32, as: .fixed)
        try visitor.field(33, "fixed64", &fixed64, as: .fixed)
        try visitor.field(34, "maybeDouble", &maybeDouble)
        try visitor.field(35, "maybeBytes", &maybeBytes)
        try visitor.field(36, "longs", &longs)
        try visitor.field(37, "counts", &counts)
        try visitor.field(38, "sizes", &sizes)
        try visitor.field(39, "deltas", &deltas, as: .zigZag)
        try visitor.field(40, "words", &words, as: .fixed)
        try visitor.field(41, "offsets", &offsets, as: .fixed)
        try visitor.field(42, "times", &times, as: .fixed)
        try visitor.field(43, "byFlag", &byFlag)
        try visitor.field(44, "byLong", &byLong)
        try visitor.field(45, "byCount", &byCount)
        try visitor.field(46, "colourByName", &colourByName)
        try visitor.field(47, "deltaByNumber", &deltaByNumber, as: .zigZag)
        try visitor.field(48, "timeByName", &timeByName, as: .fixed)
        try visitor.field(49, "byDelta", &byDelta, keys: .zigZag)
        try visitor.field(50, "byOffset", &byOffset, as: .zigZag, keys: .zigZag)
        try visitor.field(51, "byWord", &byWord, keys: .fixed)
        try visitor.field(52, "byHash", &byHash, keys: .fixed)
        try visitor.field(53, "byPlace", &byPlace, keys: .fixed)
        try visitor.field(54, "byTime", &byTime, keys: .fixed)
        try visitor.field(2000, "children", &children)
        try visitor.unknownFields(&unknown)
    }
}

extension AllTypes {
    var withoutUnknown: AllTypes {
        var message = self
        message.unknown = UnknownFields()
        message.children = children.map(\.withoutUnknown)
        return message
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

extension AllTypes {
    static let proto = """
        syntax = "proto3";
        enum Colour { COLOUR_RED = 0; COLOUR_GREEN = 1; COLOUR_BLUE = -5; }
        message Inner { int32 number = 1; string snake_case = 2; }
        message AllTypes {
          bool bool = 1; int32 int32 = 2; int64 int64 = 3; uint32 uint32 = 4; uint64 uint64 = 5;
          sint32 sint32 = 6; sint64 sint64 = 7; fixed32 fixed32 = 8; sfixed64 sfixed64 = 9;
          float float = 10; double double = 11; string string = 12; bytes bytes = 13; Colour colour = 14;
          Inner inner = 15; optional int32 maybe_int = 16; optional string maybe_string = 17;
          optional Colour maybe_colour = 18; repeated int32 ints = 19; repeated sint64 sints = 20;
          repeated fixed64 fixeds = 21; repeated float floats = 22; repeated double doubles = 23;
          repeated bool bools = 24; repeated Colour colours = 25; repeated string strings = 26;
          repeated bytes blobs = 27; repeated Inner inners = 28; map<string, int64> by_name = 29;
          map<int32, string> by_number = 30; map<uint64, Inner> by_key = 31;
          sfixed32 sfixed32 = 32; fixed64 fixed64 = 33; optional double maybe_double = 34; optional bytes maybe_bytes = 35;
          repeated int64 longs = 36; repeated uint32 counts = 37; repeated uint64 sizes = 38; repeated sint32 deltas = 39;
          repeated fixed32 words = 40; repeated sfixed32 offsets = 41; repeated sfixed64 times = 42;
          map<bool, bool> by_flag = 43; map<int64, double> by_long = 44; map<uint32, bytes> by_count = 45;
          map<string, Colour> colour_by_name = 46; map<int32, sint32> delta_by_number = 47;
          map<string, sfixed64> time_by_name = 48; map<sint32, bool> by_delta = 49; map<sint64, sint64> by_offset = 50;
          map<fixed32, string> by_word = 51; map<fixed64, Inner> by_hash = 52; map<sfixed32, bytes> by_place = 53;
          map<sfixed64, double> by_time = 54; repeated AllTypes children = 2000;
        }
        """
}
