/// The bytes of one run. Choices are taken from the end, so that the bytes in front remain a peer's stream.
struct FuzzInput {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) {
        rest = bytes[...]
    }

    /// A choice among 256 values; 0 when no bytes are left.
    mutating func choice() -> UInt8 { rest.popLast() ?? 0 }

    /// Whether a choice is odd.
    mutating func flag() -> Bool { choice() & 1 == 1 }

    /// One of `options`, which must not be empty.
    mutating func choice<Option>(of options: [Option]) -> Option { options[Int(choice()) % options.count] }

    /// Removes up to `count` bytes from the front and returns them.
    mutating func take(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// Removes the next byte from the front and returns it.
    mutating func next() -> UInt8? { rest.popFirst() }

    /// Removes a record from the front and returns its bytes. Its length precedes it in two bytes, of which eleven bits
    /// count.
    mutating func record() -> [UInt8] {
        let length = Int(rest.popFirst() ?? 0) << 8 | Int(rest.popFirst() ?? 0)
        return take(length & 0x7ff)
    }
}

/// The rule by which a stream is cut into reads.
struct Slicing {
    /// All bytes in one read.
    static let whole = Slicing(0)

    private let most: Int
    private var state: UInt64

    /// 0 means one read, 1 means one read for each byte, and all others mean reads of various sizes.
    init(_ choice: UInt8) {
        most = choice == 0 ? .max : choice == 1 ? 1 : Int(choice) / 2 + 1
        state = UInt64(choice)
    }

    /// The slices of `bytes`.
    mutating func slices(of bytes: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        var rest = bytes
        var slices: [ArraySlice<UInt8>] = []
        while !rest.isEmpty {
            // The generator of Knuth's MMIX.
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let size = most == .max ? rest.count : 1 + Int(state >> 40) % most
            slices.append(rest.prefix(size))
            rest = rest.dropFirst(size)
        }
        return slices
    }
}
