import Codecs
import Testing

@Suite struct JSONTests {
    @Test("A message of default values is an empty object")
    func empty() throws {
        #expect(try json(AllTypes()) == "{}")
        #expect(try fromJSON(" \n\t\r{ } ", as: AllTypes.self) == AllTypes())
    }

    @Test("A chat message has the text that the JSON mapping defines")
    func chatText() throws {
        var message = ChatMessage(
            id: "m1",
            conversation: "c",
            sender: "ann",
            sentAtMs: 1_700_000_000_123,
            text: "h\"é\n"
        )
        message.kind = .image
        message.replyTo = ""
        message.mentions = ["bo", ""]
        message.attachment = [0, 255, 254]
        message.attributes = ["k": "v", "a": ""]
        let expected =
            #"{"id":"m1","conversation":"c","sender":"ann","sentAtMs":"1700000000123","kind":"KIND_IMAGE","#
            + #""text":"h\"é\n","replyTo":"","mentions":["bo",""],"attachment":"AP/+","attributes":{"a":"","k":"v"}}"#
        #expect(try json(message) == expected)
        #expect(try fromJSON(expected, as: ChatMessage.self) == message)
    }

    @Test("Every type has the text that the JSON mapping defines")
    func typeText() throws {
        var message = AllTypes()
        message.bool = true
        message.int32 = -7
        message.uint64 = .max
        message.float = 1.5
        message.double = 1e100
        message.bytes = [1]
        message.colour = .blue
        message.inner = Inner()
        message.maybeInt = 0
        message.ints = [0, -2_147_483_648]
        message.sints = [1]
        message.doubles = [.nan, -.infinity]
        message.colours = [.red, Colour(rawValue: 9)]
        message.byNumber = [-3: "x", 2: "y"]
        let expected =
            #"{"bool":true,"int32":-7,"uint64":"18446744073709551615","float":1.5,"double":1e+100,"#
            + #""bytes":"AQ==","colour":"COLOUR_BLUE","inner":{},"maybeInt":0,"ints":[0,-2147483648],"sints":["1"],"#
            + #""doubles":["NaN","-Infinity"],"colours":["COLOUR_RED",9],"byNumber":{"-3":"x","2":"y"}}"#
        #expect(try json(message) == expected)
    }

    @Test("Every control character is escaped, and other characters only if they must be")
    func escapes() throws {
        var message = Inner()
        message.snakeCase =
            String(String.UnicodeScalarView((0..<0x20).compactMap(Unicode.Scalar.init))) + "\u{7F}/é\u{2028}"
        let expected =
            #"{"snakeCase":"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f"#
            + #"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f"#
            + "\u{7F}/é\u{2028}\"}"
        #expect(try json(message) == expected)
        #expect(try fromJSON(expected, as: Inner.self) == message)
    }

    @Test("Members are read in any order, and unknown members are skipped")
    func anyOrder() throws {
        let message: AllTypes = try fromJSON(
            #"{"zz":[1,{"a":null}],"string":"s","new":{"bool":true},"int32":3,"bool":true,"x":"\u00e9","last":-1.5e-7}"#
        )
        #expect(message.string == "s" && message.int32 == 3 && message.bool)
    }

    @Test("The last value of a repeated name replaces the earlier values as a whole")
    func duplicates() throws {
        let message: AllTypes = try fromJSON(
            #"{"ints":[1,2],"inner":{"number":1},"byName":{"a":1},"int32":5,"maybeInt":1,"ints":[3],"#
                + #""inner":{"snakeCase":"x"},"byName":{"b":1,"b":2},"int32":6,"maybeInt":null}"#
        )
        #expect(message.ints == [3] && message.int32 == 6 && message.maybeInt == nil)
        #expect(message.inner == Inner(snakeCase: "x") && message.byName == ["b": 2])
    }

    @Test("Null stands for the default value, but not in an array or a map")
    func nulls() throws {
        let message: AllTypes = try fromJSON(
            #"{"bool":null,"int64":null,"string":null,"inner":null,"ints":null,"byName":null,"colour":null,"bytes":null}"#
        )
        #expect(message == AllTypes())
        #expect(codecError { try fromJSON(#"{"ints":[null]}"#, as: AllTypes.self) }?.code == .wrongType)
        #expect(codecError { try fromJSON(#"{"byName":{"a":null}}"#, as: AllTypes.self) }?.code == .wrongType)
    }

    @Test("Names are recognized with escapes and in snake_case")
    func names() throws {
        #expect(try fromJSON(#"{"snake\u0043ase":"a"}"#, as: Inner.self).snakeCase == "a")
        #expect(try fromJSON(#"{"snake_case":"a"}"#, as: Inner.self).snakeCase == "a")
        #expect(
            try fromJSON(#"{"snake\u005fcase":"a","number":1}"#, as: Inner.self) == Inner(number: 1, snakeCase: "a")
        )
        #expect(
            try fromJSON(#"{"Snake_case":"a","snakecase":"b","_":1,"__":2,"no_such":3}"#, as: Inner.self) == Inner()
        )
        let long = String(repeating: "long_", count: 100)
        #expect(
            try fromJSON("{\"\(long)\":1,\"\\u0073nakeCase\":\"a\",\"\(long)\":2}", as: Inner.self).snakeCase == "a"
        )
    }

    @Test("Numbers may be quoted, 64-bit integers unquoted, and integers written with a fraction or an exponent")
    func lenientNumbers() throws {
        let message: AllTypes = try fromJSON(
            #"{"int32":"-5","int64":9007199254740993,"uint32":1e3,"uint64":"18446744073709551615","sint32":-0,"sint64":2.50e1,"#
                + #""float":"1.5","double":"-Infinity","doubles":[1,"NaN","2e2",-0.0]}"#
        )
        #expect(message.int32 == -5 && message.int64 == 9_007_199_254_740_993 && message.uint32 == 1000)
        #expect(message.uint64 == .max && message.sint32 == 0 && message.sint64 == 25 && message.float == 1.5)
        #expect(message.double == -.infinity && message.doubles[1].isNaN && message.doubles[2] == 200)
        #expect(message.doubles[3].sign == .minus)
    }

    @Test(
        "Decimal digits give the nearest double",
        arguments: [
            "0.1", "123456789012345678901234567890", "1e22", "1e23", "9007199254740993", "2.2250738585072014e-308",
            "5e-324",
            "1.7976931348623157e308", "3.14159265358979323846264338327950288", "123456.789e-10", "0e999999", "1e-400",
            "8.5e21", "4503599627370497.5",
        ]
    )
    func doubles(text: String) throws {
        let message: AllTypes = try fromJSON("{\"double\":\(text),\"doubles\":[-\(text)]}")
        let expected = try #require(Double(text))
        #expect(message.double == expected && message.doubles == [-expected])
    }

    @Test("Decimal digits give the nearest float, not the float nearest to the nearest double")
    func floats() throws {
        #expect(try fromJSON(#"{"float":1.00000017881393432617187499}"#, as: AllTypes.self).float == 1.0000001)
        #expect(try fromJSON(#"{"float":3.4028235e38}"#, as: AllTypes.self).float == .greatestFiniteMagnitude)
    }

    @Test("Enums are read as names or numbers, and an unknown name counts as absent")
    func enums() throws {
        let message: AllTypes = try fromJSON(
            #"{"colour":-5,"maybeColour":"COLOUR_MAUVE","colours":["COLOUR_GREEN","COLOUR_MAUVE",7,"1x"],"int32":1}"#
        )
        #expect(message.colour == .blue && message.maybeColour == nil && message.int32 == 1)
        #expect(message.colours == [.green, Colour(rawValue: 7)])
    }

    @Test("An error names its field and its offset")
    func errorPath() {
        let error = codecError { try fromJSON(#"{"children":[{"inner":{"number":true}}]}"#, as: AllTypes.self) }
        #expect(error?.code == .wrongType && error?.field == "children.inner.number" && error?.offset == 32)
    }

    @Test(
        "Bytes are read from either Base64 alphabet, with and without padding",
        arguments: [
            ("", []), ("AQ==", [1]), ("AQ", [1]), ("AQI=", [1, 2]), ("AQI", [1, 2]), ("AQID", [1, 2, 3]),
            ("-_-_", [0xFB, 0xFF, 0xBF]), ("-_", [0xFB]), ("AQJ", [1, 2]), (#"\u002d\u005f"#, [0xFB]),
            ("+/+/", [0xFB, 0xFF, 0xBF]), (#"+\/\u002b/"#, [0xFB, 0xFF, 0xBF]),
        ] as [(String, [UInt8])]
    )
    func base64(text: String, bytes: [UInt8]) throws {
        #expect(try fromJSON("{\"bytes\":\"\(text)\"}", as: AllTypes.self).bytes == bytes)
    }

    @Test(
        "Text that is not Base64 is rejected",
        arguments: ["A", "A===", "AQ=", "=", "====", "AR==", "AQJ=", "A Q=", "AQ==AQ==", "é", "AAAA="]
    )
    func notBase64(text: String) {
        #expect(codecError { try fromJSON("{\"bytes\":\"\(text)\"}", as: AllTypes.self) }?.code == .invalidBase64)
    }

    @Test("Base64 of every length and every byte survives a round trip")
    func base64RoundTrip() throws {
        for length in 0..<80 {
            var message = AllTypes()
            message.bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ length) }
            #expect(try fromJSON(try json(message), as: AllTypes.self) == message)
        }
    }
}
