import Codecs
import Testing

/// Documents that a strict parser accepts or refuses (XML 1.0, fifth edition).
@Suite struct XMLSyntaxTests {
    private struct Text: WireMessage, Equatable {
        var text: String?
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "text", &text)
        }
    }

    private func text(_ document: String) throws -> String? { try fromXML(document, as: Text.self).text }

    private func failure(_ document: String) -> CodecError.Code? { codecError { try text(document) }?.code }

    @Test(
        "Content is read with references, CDATA sections, comments and processing instructions",
        arguments: [
            ("", ""), (" a ", " a "), ("&lt;&gt;&amp;&quot;&apos;", "<>&\"'"), ("&#65;&#x42;&#x63;&#x1F600;", "ABc😀"),
            ("&#0000000065;&#x00041;", "AA"), ("<![CDATA[<a>&amp;]]>", "<a>&amp;"), ("a<![CDATA[]]>b", "ab"),
            ("<![CDATA[]]]]><![CDATA[>]]>", "]]>"), ("<![CDATA[ ]] > ]]>", " ]] > "), ("a<!-- <b> - & -->b", "ab"),
            ("a<?php echo '<b>' ?>b", "ab"), ("a<?p?>b<?p ??>c", "abc"), ("]]", "]]"), ("] ]>", "] ]>"), ("a>b", "a>b"),
            ("]]&gt;", "]]>"), ("&#93;&#93;>", "]]>"), ("]<!---->]>", "]]>"), ("\r\n|\r|\n", "\n|\n|\n"),
            ("\r\r\n\n", "\n\n\n"), ("&#13;\n", "\r\n"), ("&#13;&#10;", "\r\n"), ("\r<!---->\n", "\n\n"),
            ("<![CDATA[\r\n\r]]>\n", "\n\n\n"), ("\u{85}\u{2028}", "\u{85}\u{2028}"), ("'\"", "'\""), ("é你😀", "é你😀"),
            ("12345678&amp;12345678", "12345678&12345678"),
        ]
    )
    func content(source: String, expected: String) throws {
        #expect(try text("<message><text>\(source)</text></message>")?.utf8.elementsEqual(expected.utf8) == true)
        // The same as an element that is skipped.
        #expect(try text("<message><other>\(source)</other><text>x</text></message>") == "x")
    }

    @Test(
        "Malformed content is refused, also where it is skipped",
        arguments: [
            ("&", .unexpectedCharacter), ("&;", .unexpectedCharacter), ("& amp;", .unexpectedCharacter),
            ("&amp", .unexpectedCharacter), ("&amp ;", .unexpectedCharacter), ("&nbsp;", .unknownEntity),
            ("&Amp;", .unknownEntity), ("&lol9;", .unknownEntity), ("&#;", .unexpectedCharacter),
            ("&#x;", .unexpectedCharacter), ("&#X41;", .unexpectedCharacter), ("&#6a;", .unexpectedCharacter),
            ("&#-5;", .unexpectedCharacter), ("&#0;", .forbiddenCharacter), ("&#1;", .forbiddenCharacter),
            ("&#x1F;", .forbiddenCharacter), ("&#xD800;", .forbiddenCharacter), ("&#xFFFE;", .forbiddenCharacter),
            ("&#xFFFF;", .forbiddenCharacter), ("&#x110000;", .forbiddenCharacter),
            ("&#99999999999999999999999999;", .forbiddenCharacter), ("]]>", .unexpectedCharacter),
            ("a]]]>b", .unexpectedCharacter), ("<![CDATA[]]>]]>", .unexpectedCharacter),
            ("<![cdata[]]>", .unexpectedCharacter),
            ("<![CDATA []]>", .unexpectedCharacter), ("<!-- -- -->", .unexpectedCharacter), ("<!--->", .truncated),
            ("<!-- --->", .unexpectedCharacter), ("<!- -->", .unexpectedCharacter), ("<!>", .unexpectedCharacter),
            ("<?>", .unexpectedCharacter), ("<? p?>", .unexpectedCharacter),
            ("<?xml version='1.0'?>", .unexpectedCharacter),
            ("<?XmL?>", .unexpectedCharacter), ("<?p/?>", .unexpectedCharacter), ("<>", .unexpectedCharacter),
            ("< a/>", .unexpectedCharacter), ("<1/>", .unexpectedCharacter), ("<-a/>", .unexpectedCharacter),
            ("<!DOCTYPE a>", .documentType), ("<!ENTITY a 'b'>", .unexpectedCharacter),
        ] as [(String, CodecError.Code)]
    )
    func malformed(source: String, code: CodecError.Code) {
        #expect(failure("<message><text>\(source)</text></message>") == code)
        #expect(failure("<message><other>\(source)</other></message>") == code)
        #expect(failure("<message><other><a>\(source)</a></other></message>") == code)
    }

    @Test(
        "Malformed tags are refused",
        arguments: [
            ("<a></b>", .mismatchedTag), ("<a></A>", .mismatchedTag), ("<a><b></a></b>", .mismatchedTag),
            ("<a></a b='1'>", .unexpectedCharacter), ("<a></ a>", .unexpectedCharacter),
            ("<a/ >", .unexpectedCharacter),
            ("<a b/>", .unexpectedCharacter), ("<a b=/>", .unexpectedCharacter), ("<a b=1/>", .unexpectedCharacter),
            ("<a b='<'/>", .unexpectedCharacter), ("<a b='&'/>", .unexpectedCharacter),
            ("<a b='&x;'/>", .unknownEntity),
            ("<a b='&#0;'/>", .forbiddenCharacter), ("<a b='1'c='2'/>", .unexpectedCharacter),
            ("<a b='1' b='2'/>", .repeatedAttribute), ("<a b='1' c='2' b=\"1\"/>", .repeatedAttribute),
            ("<a b='1\"/>", .unexpectedCharacter), ("<a 1='2'/>", .unexpectedCharacter),
            ("<a'b'/>", .unexpectedCharacter),
            ("</message></message>", .trailingBytes), ("<a<b/>", .unexpectedCharacter),
            ("<\u{D7}/>", .unexpectedCharacter),
        ] as [(String, CodecError.Code)]
    )
    func tags(source: String, code: CodecError.Code) {
        #expect(failure("<message>\(source)</message>") == code)
    }

    @Test(
        "Attributes that have no meaning, namespaces and all names of XML are read",
        arguments: [
            "<a b='1' c = \"2\"\n d\t=\t'>'/>", "<a b='\"' c=\"'\"/>", "<a xmlns='urn:x' xmlns:p='urn:p' p:b='1'/>",
            "<p:a><p:b p:c=''/></p:a>", "<a b='&#60;&amp;\r\n\t'/>", "<_a.b-c1/>", "<é你·/>", "<:/>", "<a></a\n>",
            "<a\n/>", "<\u{10000}\u{EFFFF}/>", "<a key='1' keyEncoding='2' encoding='3'/>",
        ]
    )
    func accepted(source: String) throws {
        #expect(try text("<message>\(source)<text>x</text></message>") == "x")
    }

    @Test("A root element may have a declaration, comments and instructions around it, and attributes")
    func prolog() throws {
        for before in [
            "", "\u{FEFF}", " \n", "<?xml version='1.0'?>", "<?xml version=\"1.1\" encoding=\"utf-8\"?>",
            "<?xml\tversion = '1.0'\r\nencoding = 'UTF-8'\nstandalone = 'no' ?>\n", "<!-- a --><?b c?>",
            "\u{FEFF}<?xml version='1.0' standalone='yes'?><!---->", "<?xml-stylesheet href='a'?>",
        ] {
            for after in ["", "\r\n", "<!-- a -->", "<?b?>\t"] {
                #expect(try text("\(before)<message xmlns='urn:x' a=''><text>x</text></message>\(after)") == "x")
            }
        }
    }

    @Test(
        "Anything else around the root element is refused",
        arguments: [
            ("<!DOCTYPE message><message/>", .documentType),
            ("<!-- --><!DOCTYPE m [<!ENTITY a 'b'>]><message/>", .documentType),
            ("<?xml version='1.0'?>\n<!DOCTYPE message SYSTEM 'file:///etc/passwd'><message/>", .documentType),
            ("x<message/>", .unexpectedCharacter), ("{\"a\":1}", .unexpectedCharacter),
            ("&lt;<message/>", .unexpectedCharacter),
            (" <?xml version='1.0'?><message/>", .unexpectedCharacter), ("<?xml?><message/>", .unexpectedCharacter),
            ("<?xml encoding='UTF-8'?><message/>", .unexpectedCharacter),
            ("<?xml version='2.0'?><message/>", .unexpectedCharacter),
            ("<?xml version='1.'?><message/>", .unexpectedCharacter),
            ("<?xml version='1.0a'?><message/>", .unexpectedCharacter),
            ("<?xml version='1.0' encoding='UTF-16'?><message/>", .unsupportedEncoding),
            ("<?xml version='1.0' encoding='ISO-8859-1'?><message/>", .unsupportedEncoding),
            ("<?xml version='1.0' encoding='UTF\r8'?><message/>", .unsupportedEncoding),
            ("<?xml version='1.0' standalone='maybe'?><message/>", .unexpectedCharacter),
            ("<?xml version='1.0' standalone='yes' encoding='UTF-8'?><message/>", .unexpectedCharacter),
            ("<?xml version='1.0'encoding='UTF-8'?><message/>", .unexpectedCharacter),
            ("<?xml version='1.0'>", .unexpectedCharacter), ("<Message/>", .wrongRoot), ("<messages/>", .wrongRoot),
            ("<m:message/>", .wrongRoot), ("<html></html>", .wrongRoot), ("<message/>x", .trailingBytes),
            ("<message/><message/>", .trailingBytes), ("<message/><![CDATA[]]>", .trailingBytes),
            ("<message/><?xml version='1.0'?>", .unexpectedCharacter), ("<message/>\u{FEFF}", .trailingBytes),
            ("</message>", .unexpectedCharacter), ("<![CDATA[]]><message/>", .unexpectedCharacter),
            ("<!-- ", .truncated),
            ("", .truncated), (" ", .truncated), ("\u{FEFF}", .truncated), ("<message", .truncated),
        ] as [(String, CodecError.Code)]
    )
    func around(document: String, code: CodecError.Code) {
        #expect(failure(document) == code)
    }

    @Test("UTF-16 is refused at its first byte or at the first one that is not UTF-8")
    func encodings() {
        let big = "<message/>".utf8.flatMap { [0, $0] as [UInt8] }
        let little = "<message/>".utf8.flatMap { [$0, 0] as [UInt8] }
        for document in [[0xFE, 0xFF] + big, [0xFF, 0xFE] + little, big, little] {
            let error = codecError { try XMLCodec().decode(Text.self, from: document) }
            #expect(error?.code == .invalidUTF8 || error?.code == .forbiddenCharacter)
        }
    }

    @Test("A bomb of entities is refused before its first entity is read")
    func bomb() {
        let entities = (1...9).map { level in
            "<!ENTITY lol\(level) \"\(String(repeating: "&lol\(level - 1);", count: 10))\">"
        }
        let document =
            "<?xml version=\"1.0\"?><!DOCTYPE lolz [<!ENTITY lol0 \"lol\">\(entities.joined())]><message>&lol9;</message>"
        let error = codecError { try fromXML(document, as: Text.self) }
        #expect(error?.code == .documentType && error?.offset == 21 && error?.field == nil)
        #expect(failure("<message><text>&lol9;</text></message>") == .unknownEntity)
    }

    @Test("The depth of unknown elements is limited like that of messages: an element with children is a level")
    func depth() throws {
        func nested(_ count: Int, _ innermost: String) -> String {
            let (opening, closing) = (String(repeating: "<a>", count: count), String(repeating: "</a>", count: count))
            return "<message>\(opening)\(innermost)\(closing)<text>x</text></message>"
        }
        // The message is the first level, and the innermost element is none.
        #expect(try text(nested(64, "b")) == "x" && text(nested(63, "<a/>")) == "x")
        #expect(failure(nested(65, "")) == .tooDeep && failure(nested(64, "<a/>")) == .tooDeep)
        #expect(failure("<message>" + String(repeating: "<a>", count: 1_000_000)) == .tooDeep)
    }

    @Test("An element has 32 attributes at most")
    func attributes() throws {
        func element(_ count: Int) -> String {
            "<message><text \((0..<count).map { "a\($0)='v'" }.joined(separator: " "))>x</text></message>"
        }
        #expect(try text(element(32)) == "x")
        #expect(failure(element(33)) == .tooManyAttributes && failure(element(10_000)) == .tooManyAttributes)
    }

    @Test("Long runs of markup take a time proportional to their length, and no memory")
    func longRuns() throws {
        for run in ["<!---->", "<?p?>", "<a/>", "\n", "<a b='1' c='2' d='3'>t</a>"] {
            let document =
                "<message>" + String(repeating: run, count: 1_000_000 / run.utf8.count) + "<text>x</text></message>"
            #expect(try text(document) == "x")
        }
        let pieces = String(repeating: "a<!---->&amp;<![CDATA[b]]>\r\n", count: 20_000)
        #expect(try text("<message><text>\(pieces)</text></message>")?.utf8.count == 80_000)
    }
}
