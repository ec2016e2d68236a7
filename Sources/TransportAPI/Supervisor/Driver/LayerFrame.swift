/// The messages of layers on top of those of the app. Their first byte tells them apart.
package enum LayerFrame {
    /// The first byte of all messages of transfers.
    package static let transfer: UInt8 = 0x1f

    /// Whether the message belongs to a layer, and is none of the app.
    static func isOne(_ payload: Payload) -> Bool {
        RequestEnvelope(payload) != nil || payload.kind == .binary && payload.bytes.first == transfer
    }
}
