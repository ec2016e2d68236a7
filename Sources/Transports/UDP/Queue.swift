/// First in, first out. Taking one out moves the others rarely: once half of the memory is free.
struct Queue<Element: Sendable>: Sendable {
    private var elements: [Element] = []
    private var first = 0

    var count: Int { elements.count - first }
    var isEmpty: Bool { elements.count == first }
    var head: Element? { isEmpty ? nil : elements[first] }

    mutating func append(_ element: Element) {
        elements.append(element)
    }

    mutating func popFirst() -> Element? {
        guard let element = head else { return nil }
        first += 1
        if first * 2 >= elements.count {
            elements.removeFirst(first)
            first = 0
        }
        return element
    }

    /// The element at a distance from the first, which must be less than ``count``.
    subscript(offset: Int) -> Element {
        get { elements[first + offset] }
        set { elements[first + offset] = newValue }
        _modify { yield &elements[first + offset] }
    }
}
