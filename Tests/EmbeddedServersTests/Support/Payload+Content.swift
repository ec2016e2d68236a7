import TransportAPI

extension Payload {
    /// The message without how it came: its QoS, and whether it was sent before.
    var content: Payload {
        var content = self
        (content.qos, content.isDuplicate) = (nil, false)
        return content
    }
}
