// The edges to literal children, as a hash table of node numbers with linear probing, at most half full. The hash is the
// standard library's, which is seeded for each process, so that no subscriber can choose names that collide.
extension TopicTrie {
    /// What the hashes of all edges of this name begin with: so a name is hashed once for any number of parents.
    @inline(__always)
    static func hasher(_ name: UnsafeRawBufferPointer) -> Hasher {
        var hasher = Hasher()
        hasher.combine(bytes: name)
        return hasher
    }

    @inline(__always)
    static func hash(_ parent: Int32, _ name: Hasher) -> Int {
        var hasher = name
        hasher.combine(parent)
        return hasher.finalize()
    }

    /// The literal child of this name, whose edge has this hash.
    func child(of parent: Int32, _ name: UnsafeRawBufferPointer, _ hash: Int) -> Int32? {
        let mask = edges.count - 1
        var place = hash & mask
        while edges[place] >= 0 {
            let node = Int(edges[place])
            if nodes[node].hash == hash, nodes[node].parent == parent,
                nodes[node].name.withUnsafeBytes({ $0.hasSameBytes(as: name) })
            {
                return edges[place]
            }
            place = (place + 1) & mask
        }
        return nil
    }

    mutating func addEdge(to node: Int32) {
        if (edgeCount + 1) * 2 > edges.count {
            let old = edges
            edges = Array(repeating: -1, count: old.count * 2)
            for node in old where node >= 0 { place(node) }
        }
        place(node)
        edgeCount += 1
    }

    private mutating func place(_ node: Int32) {
        let mask = edges.count - 1
        var place = nodes[Int(node)].hash & mask
        while edges[place] >= 0 { place = (place + 1) & mask }
        edges[place] = node
    }

    /// Empties the place of a node, and moves up what was pushed behind it (Knuth, volume 3, section 6.4, algorithm R).
    mutating func removeEdge(to node: Int32) {
        let mask = edges.count - 1
        var hole = nodes[Int(node)].hash & mask
        while edges[hole] != node {
            guard edges[hole] >= 0 else { return }
            hole = (hole + 1) & mask
        }
        var place = (hole + 1) & mask
        while edges[place] >= 0 {
            let home = nodes[Int(edges[place])].hash & mask
            if (place &- home) & mask >= (place &- hole) & mask {
                edges[hole] = edges[place]
                hole = place
            }
            place = (place + 1) & mask
        }
        edges[hole] = -1
        edgeCount -= 1
    }
}
