import TransportAPI

extension Payload {
    /// The message without its QoS and its DUP flag.
    var content: Payload {
        var content = self
        (content.qos, content.isDuplicate) = (nil, false)
        return content
    }
}
