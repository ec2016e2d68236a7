/// A message that was not delivered, returned so that the app can show, edit and resend it.
public struct Undelivered: Sendable, Hashable {
    /// The identifier of the message.
    public var id: MessageID
    /// The message.
    public var payload: Payload
    /// Why it was not delivered, or why that is not known.
    public var outcome: SendOutcome
}
