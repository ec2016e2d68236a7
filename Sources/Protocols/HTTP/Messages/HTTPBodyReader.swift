/// Reads the body of a message as it arrives (RFC 9112, sections 6 and 7).
struct HTTPBodyReader: Sendable, Hashable {
}
