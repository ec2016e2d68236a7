/// The receiver's side of QoS 2 (MQTT 3.1.1, section 4.3.3): which packet identifiers were answered by PUBREC and not
/// released by PUBREL.
struct ExactlyOnceReceiver: Sendable {
    /// The memory of a packet identifier that waits for PUBREL here and in the session, in bytes.
    private static let bytesOfReceived = 6
    /// The memory of an identifier from an earlier connection, in bytes.
    private static let bytesOfInherited = 3

    /// The most messages that are not released.
    let maximumUnreleased: Int
    private var received: Set<UInt16> = []
    /// Those of them from an earlier connection that have not arrived over this one.
    private var inherited: Set<UInt16> = []
    /// How many repetitions from the earlier connection may still arrive without counting as control work.
    private var repetitionsLeft = 0

    init(maximumUnreleased: Int) {
        self.maximumUnreleased = maximumUnreleased
    }

    var hasRoom: Bool { received.count < maximumUnreleased }
    var bufferedBytes: Int { received.capacity * Self.bytesOfReceived + inherited.capacity * Self.bytesOfInherited }

    /// Continues with the identifiers that earlier connections of the session have left.
    mutating func resume(_ session: MQTTSession) {
        received = session.received
        inherited = received
        repetitionsLeft = session.isClean ? 0 : maximumUnreleased
    }

    /// A PUBLISH has arrived. Returns whether its message was accepted before (MQTT-4.3.3-2).
    ///
    /// Within one connection the identifier decides. An identifier from an earlier connection without DUP belongs to a
    /// new message. A sender has to set DUP on a repetition (MQTT-3.3.1-1), and a peer that has lost its state begins
    /// with the same numbers again.
    mutating func isRepeated(_ packetID: UInt16, isDuplicate: Bool, in session: MQTTSession?) -> Bool {
        if takeInherited(packetID), !isDuplicate {
            received.remove(packetID)
            session?.received.remove(packetID)
            return false
        }
        return received.contains(packetID)
    }

    /// PUBREC is written. The message is not delivered again.
    mutating func accept(_ packetID: UInt16, in session: MQTTSession?) {
        received.insert(packetID)
        session?.received.insert(packetID)
    }

    /// PUBREL has arrived. Returns `false` if no message waits for it.
    mutating func release(_ packetID: UInt16, in session: MQTTSession?) -> Bool {
        session?.received.remove(packetID)
        _ = takeInherited(packetID)
        return received.remove(packetID) != nil
    }

    /// A packet without anything new has arrived. Returns whether it counts as control work.
    ///
    /// In a session that outlives its connections, a peer repeats its packets in flight after a lost connection
    /// (MQTT-4.4.0-1). Further repetitions, and all of them in another session, are control work.
    mutating func isRepetitionWork() -> Bool {
        guard repetitionsLeft > 0 else { return true }
        repetitionsLeft -= 1
        return false
    }

    /// Whether an identifier is from an earlier connection and has not arrived over this one before.
    private mutating func takeInherited(_ packetID: UInt16) -> Bool {
        guard !inherited.isEmpty, inherited.remove(packetID) != nil else { return false }
        if inherited.isEmpty { inherited = [] }
        return true
    }
}
