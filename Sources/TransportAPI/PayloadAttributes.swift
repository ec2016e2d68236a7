/// What a payload has besides its bytes and its topic, in 32 bits.
struct PayloadAttributes: Sendable, Hashable {
    private var bits: UInt32 = 0

    private static let textBit: UInt32 = 1 << 0
    private static let retainedBit: UInt32 = 1 << 1
    private static let duplicateBit: UInt32 = 1 << 2
    /// The QoS plus 1; 0 for none.
    private static let qosBits: UInt32 = 3 << qosShift
    private static let qosShift: UInt32 = 3
    private static let subscriptionShift: UInt32 = 5

    /// The largest ``subscription``.
    static let largestSubscription = UInt32.max >> subscriptionShift

    var isText: Bool {
        get { bits & Self.textBit != 0 }
        set { set(Self.textBit, newValue) }
    }

    var isRetained: Bool {
        get { bits & Self.retainedBit != 0 }
        set { set(Self.retainedBit, newValue) }
    }

    var isDuplicate: Bool {
        get { bits & Self.duplicateBit != 0 }
        set { set(Self.duplicateBit, newValue) }
    }

    var qos: Payload.QoS? {
        get { Payload.QoS(rawValue: UInt8(truncatingIfNeeded: (bits & Self.qosBits) >> Self.qosShift) &- 1) }
        set { bits = bits & ~Self.qosBits | (newValue.map { UInt32($0.rawValue) + 1 } ?? 0) << Self.qosShift }
    }

    /// The number of the subscription by which a message has come. Larger ones than ``largestSubscription`` lose their
    /// highest bits.
    var subscription: UInt32 {
        get { bits >> Self.subscriptionShift }
        set { bits = bits & ~(.max << Self.subscriptionShift) | newValue << Self.subscriptionShift }
    }

    private mutating func set(_ bit: UInt32, _ isSet: Bool) {
        bits = isSet ? bits | bit : bits & ~bit
    }

    /// Compares all but the subscription.
    static func == (left: PayloadAttributes, right: PayloadAttributes) -> Bool {
        left.compared == right.compared
    }

    /// Hashes what is compared.
    func hash(into hasher: inout Hasher) { hasher.combine(compared) }

    private var compared: UInt32 { bits & ~(.max << Self.subscriptionShift) }
}
