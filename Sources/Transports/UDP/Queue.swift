/// First in, first out. Taking one out moves the others rarely: once half of the memory is free.
package struct Queue<Element> {
    private var elements: [Element] = []
    private var first = 0

    package init() {}

    package var count: Int { elements.count - first }
    package var isEmpty: Bool { elements.count == first }
    var head: Element? { isEmpty ? nil : elements[first] }

    package mutating func append(_ element: Element) {
        elements.append(element)
    }

    package mutating func popFirst() -> Element? {
        guard let element = head else { return nil }
        first += 1
        if first * 2 >= elements.count {
            elements.removeFirst(first)
            first = 0
        }
        return element
    }

    /// The element at a distance from the first, which must be less than ``count``.
    package subscript(offset: Int) -> Element {
        get { elements[first + offset] }
        set { elements[first + offset] = newValue }
        _modify { yield &elements[first + offset] }
    }
}

extension Queue: Sendable where Element: Sendable {}
