/// The record of a simulation: a digest of all events, and a line of text for each.
package final class Trace {
    /// The digest of all events so far (FNV-1a over words). The same seed gives the same digest.
    package private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// Receives each line, if it is set.
    package var print: ((String) -> Void)?

    package init() {}

    /// Records an event.
    ///
    /// - Parameter text: a description of the event for a reader.
    package func note(_ code: UInt8, _ first: Int = 0, _ second: Int = 0, _ text: @autoclosure () -> String) {
        digest = (digest ^ UInt64(code)) &* 0x0000_0100_0000_01b3
        digest = (digest ^ UInt64(bitPattern: Int64(first))) &* 0x0000_0100_0000_01b3
        digest = (digest ^ UInt64(bitPattern: Int64(second))) &* 0x0000_0100_0000_01b3
        digest ^= digest >> 29
        if let print { print(text()) }
    }
}
