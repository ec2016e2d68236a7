/// An array in pages of equal size. When it grows, no element moves except those of the first page. So adding one
/// element to a million takes no longer than to a thousand.
struct PagedArray<Element> {
    private static var shift: Int { 9 }
    private static var mask: Int { 1 << shift - 1 }

    private var pages: [[Element]]
    private(set) var count = 1

    /// Creates an array with one element.
    init(_ first: Element) {
        pages = [[first]]
    }

    @inline(__always)
    subscript(index: Int) -> Element {
        get { pages[index >> Self.shift][index & Self.mask] }
        _modify { yield &pages[index >> Self.shift][index & Self.mask] }
    }

    mutating func append(_ element: Element) {
        if count & Self.mask == 0 {
            var page: [Element] = []
            page.reserveCapacity(1 << Self.shift)
            pages.append(page)
        }
        pages[pages.count - 1].append(element)
        count += 1
    }
}

extension PagedArray: Sendable where Element: Sendable {}
