import Foundation

#if canImport(FoundationXML)
import FoundationXML
#endif

/// An element of an XML document, in the order of its start tags.
struct Element {
    var name: String
    var attributes: [String: String]
    /// The text directly inside it.
    var text = ""

    /// The classes of an element of a drawing.
    var classes: [String] { (attributes["class"] ?? "").split(separator: " ").map(String.init) }

    /// A coordinate of an element of a drawing.
    func number(_ name: String) -> Double? { attributes[name].flatMap(Double.init) }
}

/// The elements of an XML document, or `nil` if it is not well-formed.
func elements(of document: String) -> [Element]? {
    let reader = ElementReader()
    let parser = XMLParser(data: Data(document.utf8))
    parser.delegate = reader
    return parser.parse() ? reader.elements : nil
}

private final class ElementReader: NSObject, XMLParserDelegate {
    var elements: [Element] = []
    private var open: [Int] = []

    func parser(
        _ parser: XMLParser,
        didStartElement name: String,
        namespaceURI: String?,
        qualifiedName: String?,
        attributes: [String: String]
    ) {
        open.append(elements.count)
        elements.append(Element(name: name, attributes: attributes))
    }

    func parser(_ parser: XMLParser, didEndElement: String, namespaceURI: String?, qualifiedName: String?) {
        open.removeLast()
    }

    func parser(_ parser: XMLParser, foundCharacters text: String) {
        if let last = open.last { elements[last].text += text }
    }
}

/// The SHA-256 hash (FIPS 180-4) of some bytes.
func sha256(_ bytes: [UInt8]) -> [UInt8] {
    var primes: [UInt64] = []
    for number in UInt64(2)...311 where primes.allSatisfy({ number % $0 != 0 }) { primes.append(number) }
    // The first 32 bits of the fractions of the roots of the primes.
    func fraction(_ root: Double) -> UInt32 { UInt32((root - root.rounded(.down)) * 4_294_967_296) }
    var hash = primes.prefix(8).map { fraction(Double($0).squareRoot()) }
    let constants = primes.map { fraction(cbrt(Double($0))) }
    var padded = bytes + [0x80]
    while padded.count % 64 != 56 { padded.append(0) }
    padded += (0..<8).reversed().map { UInt8(truncatingIfNeeded: bytes.count * 8 >> ($0 * 8)) }
    func rotated(_ value: UInt32, _ count: UInt32) -> UInt32 { value >> count | value << (32 - count) }
    for start in stride(from: 0, to: padded.count, by: 64) {
        var words = (0..<16).map { index in
            padded[start + index * 4..<start + index * 4 + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        }
        for index in 16..<64 {
            let (old, new) = (words[index - 15], words[index - 2])
            words.append(
                words[index - 16] &+ (rotated(old, 7) ^ rotated(old, 18) ^ old >> 3) &+ words[index - 7]
                    &+ (rotated(new, 17) ^ rotated(new, 19) ^ new >> 10)
            )
        }
        var s = hash
        for index in 0..<64 {
            let choice = s[4] & s[5] ^ ~s[4] & s[6]
            let first =
                s[7] &+ (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) &+ choice &+ constants[index]
                &+ words[index]
            let majority = s[0] & s[1] ^ s[0] & s[2] ^ s[1] & s[2]
            let second = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) &+ majority
            s = [first &+ second, s[0], s[1], s[2], s[3] &+ first, s[4], s[5], s[6]]
        }
        hash = zip(hash, s).map { $0 &+ $1 }
    }
    return hash.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - $0 * 8)) } }
}
