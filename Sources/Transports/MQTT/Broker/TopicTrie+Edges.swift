// The edges to literal children, in a hash table that grows by one bucket with each edge (linear hashing, Litwin 1980): no
// subscriber's filter is the one for which all others are hashed anew. The hash is the standard library's, which is seeded for
// each process, so that nobody can choose names that collide.
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
        var node = buckets[bucket(hash)]
        while node >= 0 {
            let index = Int(node)
            if nodes[index].hash == hash, nodes[index].parent == parent,
                nodes[index].name.withUnsafeBytes({ $0.hasSameBytes(as: name) })
            {
                return node
            }
            node = nodes[index].next
        }
        return nil
    }

    mutating func addEdge(to node: Int32) {
        if edgeCount >= buckets.count { split() }
        chain(node, into: bucket(nodes[Int(node)].hash))
        edgeCount += 1
    }

    mutating func removeEdge(to node: Int32) {
        let bucket = bucket(nodes[Int(node)].hash)
        var former: Int32 = -1
        var current = buckets[bucket]
        while current != node {
            guard current >= 0 else { return }
            former = current
            current = nodes[Int(current)].next
        }
        if former < 0 {
            buckets[bucket] = nodes[Int(node)].next
        } else {
            nodes[Int(former)].next = nodes[Int(node)].next
        }
        edgeCount -= 1
    }

    /// The bucket of a hash: as many of its bits as there are buckets for, or one fewer where that bucket is still to come.
    @inline(__always)
    private func bucket(_ hash: Int) -> Int {
        let bucket = hash & bucketMask
        return bucket < buckets.count ? bucket : hash & bucketMask >> 1
    }

    private mutating func chain(_ node: Int32, into bucket: Int) {
        nodes[Int(node)].next = buckets[bucket]
        buckets[bucket] = node
    }

    /// Adds a bucket, which takes over its share of the one that has stood for it.
    private mutating func split() {
        let fresh = buckets.count
        if fresh > bucketMask { bucketMask = bucketMask << 1 | 1 }
        let old = fresh & bucketMask >> 1
        var node = buckets[old]
        buckets.append(-1)
        buckets[old] = -1
        while node >= 0 {
            let next = nodes[Int(node)].next
            chain(node, into: bucket(nodes[Int(node)].hash))
            node = next
        }
    }
}
