/// What happens in a simulation, as a digest, and as lines for a reader.
package final class Trace {
    /// The digest of all that has happened (FNV-1a over words). The same seed gives the same.
    package private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// Gets each line, if somebody wants to read them.
    package var print: ((String) -> Void)?

    package init() {}

    /// Takes note of something that has happened.
    ///
    /// - Parameter text: what it was, for a reader.
    package func note(_ code: UInt8, _ first: Int = 0, _ second: Int = 0, _ text: @autoclosure () -> String) {
        digest = (digest ^ UInt64(code)) &* 0x0000_0100_0000_01b3
        digest = (digest ^ UInt64(bitPattern: Int64(first))) &* 0x0000_0100_0000_01b3
        digest = (digest ^ UInt64(bitPattern: Int64(second))) &* 0x0000_0100_0000_01b3
        digest ^= digest >> 29
        if let print { print(text()) }
    }
}
