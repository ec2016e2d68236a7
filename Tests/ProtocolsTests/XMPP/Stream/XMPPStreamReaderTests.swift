import Testing
import TransportAPI

@testable import Protocols

@Suite("XMPP streams")
struct XMPPStreamReaderTests {
    @Test("A stream has a start tag, elements and an end tag, in any slices", arguments: [Int.max, 1, 2, 3, 7])
    func parts(slice: Int) throws {
        let text =
            "<?xml version='1.0' encoding='UTF-8'?>\n\(streamHeader) \n<presence/>\t"
            + "<message to='a&amp;b' xml:lang='en'><body>x &lt;&#x1F600;&#65;</body><y xmlns='urn:y'/></message></stream:stream>"
        let (parts, fault) = readParts(text, slice: slice)
        #expect(fault == nil && parts.count == 4)
        guard case .header(let header) = parts[0], case .element(let presence) = parts[1],
            case .element(let message) = parts[2], case .end = parts[3]
        else {
            Issue.record("\(parts)")
            return
        }
        #expect(header.isNamed("stream", XMPPNamespace.stream) && header["version"] == "1.0")
        #expect(presence == XMPPElement("presence", XMPPNamespace.client))
        #expect(message["to"] == "a&b" && message["xml:lang"] == "en")
        #expect(message.child("body", XMPPNamespace.client).map { $0.text } == Array("x <😀A".utf8))
        #expect(message.child("y", "urn:y") != nil)
    }

    @Test("Text keeps its bytes, except that ends of lines become line feeds")
    func text() throws {
        let (elements, fault) = readElements(
            "<message><body>a\r\nb\rc\t<![CDATA[<&]]]>]]\r\n]]&gt;d &#xD;é</body></message>",
            slice: 1
        )
        #expect(fault == nil)
        let body = try #require(elements.first?.child("body", XMPPNamespace.client))
        #expect(String(decoding: body.text, as: UTF8.self) == "a\nb\nc\t<&]]]\n]]>d \ré")
    }

    @Test("Prefixes and default namespaces count where they are declared")
    func namespaces() throws {
        let (elements, fault) = readElements(
            "<m:message xmlns:m='jabber:client' xmlns='urn:x'><body/><m:body xmlns:m='urn:m'/></m:message><presence/>"
        )
        #expect(fault == nil && elements.count == 2)
        #expect(elements[0].isNamed("message", XMPPNamespace.client))
        #expect(elements[0].children.map(\.namespace) == ["urn:x", "urn:m"])
        #expect(elements[1].namespace == XMPPNamespace.client)
    }

    @Test(
        "What XMPP forbids is an error with its condition, in any slices",
        arguments: [
            ("<!-- c -->", "restricted-xml"), ("<message><!-- c --></message>", "restricted-xml"),
            ("<!DOCTYPE x [<!ENTITY a 'b'>]>", "restricted-xml"), ("<message><?p i?></message>", "restricted-xml"),
            ("<?xml version='1.0'?>", "restricted-xml"), ("<message>&lol9;</message>", "restricted-xml"),
            ("<message a='&lol9;'/>", "restricted-xml"), ("<message>&#0;</message>", "not-well-formed"),
            ("<message>&#x110000;</message>", "not-well-formed"), ("<message>&#xD800;</message>", "not-well-formed"),
            ("<message>&a</message>", "not-well-formed"), ("text", "not-well-formed"),
            ("<a><b></a></b>", "not-well-formed"),
            ("<a b='1' b='2'/>", "not-well-formed"), ("<a b='<'/>", "not-well-formed"), ("<a b=c/>", "not-well-formed"),
            ("<a b='1'c='2'/>", "not-well-formed"), ("<a/b>", "not-well-formed"), ("< a/>", "not-well-formed"),
            ("<a>]]></a>", "not-well-formed"), ("<a>\u{1}</a>", "not-well-formed"),
            ("<a>\u{FFFE}</a>", "not-well-formed"),
            ("<p:a/>", "bad-namespace-prefix"), ("<a xmlns:p=''/>", "bad-namespace-prefix"),
            ("<a:b:c/>", "bad-namespace-prefix"), ("<![CDATA[x]]>", "not-well-formed"),
        ]
    )
    func forbidden(text: String, condition: String) {
        for slice in [Int.max, 1, 5] {
            let (elements, fault) = readElements(text, slice: slice)
            #expect(elements.isEmpty && fault?.condition == condition, "\(text): \(String(describing: fault))")
        }
    }

    @Test("A document type before the stream, and entities that expand to others, are refused at their first bytes")
    func billionLaughs() {
        let text = "<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY lol 'lol'><!ENTITY lol2 '&lol;&lol;'>]>"
        #expect(readParts(text, slice: 1).fault?.condition == "restricted-xml")
        #expect(readParts("<!DOCTYPE").fault?.condition == "restricted-xml")
        #expect(readParts("<?php ?>").fault?.condition == "restricted-xml")
        #expect(readParts("<?xml version='1.0' encoding='latin1'?>").fault?.condition == "unsupported-encoding")
        #expect(readParts("<stream:stream/>").fault?.condition == "not-well-formed")
        #expect(
            readParts(Array(streamHeader.utf8) + Array("<a>".utf8) + [0xff] + Array("</a>".utf8)).fault?.code
                == .invalidText
        )
    }

    @Test("Every limit holds before the element is complete")
    func limits() {
        var limits = XMPPStreamReader.Limits()
        (limits.stanza, limits.tag, limits.depth, limits.elements, limits.attributes) = (1000, 200, 4, 8, 5)
        limits.namespaces = 2
        func fault(_ text: String) -> XMPPFault? { readParts(streamHeader + text, slice: 10, limits).fault }
        #expect(fault("<a>" + String(repeating: "x", count: 900) + "</a>") == nil)
        #expect(fault("<a>" + String(repeating: "x", count: 1000))?.code == .messageTooLarge)
        #expect(fault("<a " + String(repeating: "b='' ", count: 60))?.code == .messageTooLarge)
        #expect(fault("<a b='" + String(repeating: "x", count: 300))?.code == .messageTooLarge)
        #expect(fault("</" + String(repeating: "x", count: 300))?.code == .messageTooLarge)
        #expect(fault("<a><a><a><a>") == nil)
        #expect(fault("<a><a><a><a><a>")?.code == .messageTooLarge)
        #expect(fault("<a>" + String(repeating: "<b/>", count: 7)) == nil)
        #expect(fault("<a>" + String(repeating: "<b/>", count: 8))?.code == .messageTooLarge)
        #expect(fault("<a b='' c='' d='' e='' f=''/>") == nil)
        #expect(fault("<a b='' c='' d='' e='' f='' g=''/>")?.code == .messageTooLarge)
        // Declarations count where they apply.
        #expect(fault("<a xmlns='u'><b xmlns='u'/><b xmlns:c='u'/></a><a xmlns='u' xmlns:c='u'/>") == nil)
        #expect(fault("<a xmlns='u'><b xmlns='u'><c xmlns='u'/></b></a>")?.code == .messageTooLarge)
        #expect(
            readParts("<?xml " + String(repeating: " ", count: 300), slice: 7, limits).fault?.code == .messageTooLarge
        )
        // White space between elements is skipped as it comes.
        #expect(fault(String(repeating: " ", count: 5000) + "<a/>") == nil)
    }

    @Test("Only the part that has not arrived whole is kept")
    func memory() throws {
        var reader = XMPPStreamReader()
        var input = ByteBuffer()
        input.append(utf8: streamHeader + "<message><body>" + String(repeating: "x", count: 5000))
        guard case .header? = try reader.next(&input) else {
            Issue.record("no header")
            return
        }
        #expect(try reader.next(&input) == nil)
        #expect(input.isEmpty && reader.bufferedBytes >= 5000 && reader.bufferedBytes < 12_000)
        input.append(utf8: "</body></message><presence")
        #expect(try reader.next(&input) != nil)
        #expect(try reader.next(&input) == nil && reader.bufferedBytes < 100)
    }
}
