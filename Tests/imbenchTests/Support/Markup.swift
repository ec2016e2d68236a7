import Foundation
import FoundationXML

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
