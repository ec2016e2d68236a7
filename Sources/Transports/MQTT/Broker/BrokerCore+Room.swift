// What there is room for, and what makes room: the filters of sessions that are gone, which are cleared away bit by bit.
extension BrokerCore {
    /// What a filter is made of; `nil` if nobody may have it.
    func shape(of filter: UnsafeRawBufferPointer) -> FilterShape? {
        guard filter.count <= limits.maximumFilterLength, MQTTTopic.isFilter(filter) else { return nil }
        let shape = FilterShape(filter)
        return shape.levels <= limits.maximumFilterLevels ? shape : nil
    }

    func mayHaveMore(_ session: Int, _ shape: FilterShape) -> Bool {
        sessions[session].places.count < limits.maximumSubscriptionsPerSession
            && sessions[session].levels + shape.levels <= limits.maximumNodesPerSession
    }

    /// Clears away one filter of a session that is gone if it is room that `filter` lacks, which the session was refused; whether it
    /// did.
    ///
    /// For who looks at the clock in between: what is cleared away may have other levels than are lacking.
    package mutating func makeRoom(for filter: String, of session: UInt64) -> Bool {
        guard !goneSessions.isEmpty, let index = indexByID[session] else { return false }
        return filter.withContiguousUTF8 {
            guard let shape = self.shape(of: $0), mayHaveMore(Int(index), shape) else { return false }
            guard subscriptionCount >= limits.maximumSubscriptions || !hasRoom(for: shape, $0) else { return false }
            _ = clear(atMost: 1)
            return true
        }
    }

    /// Whether the trie may grow by a filter. It is judged as if it had no node in common with others.
    func hasRoom(for shape: FilterShape, _ filter: UnsafeRawBufferPointer) -> Bool {
        trie.nodeCount + shape.levels <= limits.maximumNodes
            && (shape.wildLevels == 0 || trie.wildCount + shape.wildLevels <= limits.maximumWildNodes)
            && trie.nameBytes + filter.count <= limits.maximumNameBytes
    }
}
