import Testing

@testable import Measuring
@testable import Reporting
@testable import imbench

@Suite("The memory of the kernel") struct KernelMemoryTests {
    @Test("The pages of TCP's buffers are read")
    func buffers() {
        let text = "sockets: used 62\nTCP: inuse 34 orphan 0 tw 176 alloc 35 mem 3762\nUDP: inuse 2 mem 26\n"
        #expect(KernelMemory.bufferPages(text) == 3762)
        for bad in ["", "TCP: inuse 34 mem", "TCP: mem x", "UDP: inuse 2 mem 26", "TCP: mem -1"] {
            #expect(KernelMemory.bufferPages(bad) == nil)
        }
    }

    @Test("Objects in use are added up, without those of connections that have ended")
    func objects() {
        let text = """
            slabinfo - version: 2.1
            # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>
            TCP                   91    143   2368   13    8 : tunables    0    0    0 : slabdata     11     11      0
            tw_sock_TCP          224    304    256   16    1 : tunables    0    0    0 : slabdata     19     19      0
            kmalloc-8             10     20      8  512    1 : tunables    0    0    0 : slabdata      2      2      0

            """
        #expect(KernelMemory.objectBytes(text) == 91 * 2368 + 10 * 8)
        let bad = [
            "", "slabinfo - version: 3.0", "slabinfo - version: 2.1\nTCP 1 2", "slabinfo - version: 2.1\nTCP a 2 3 4 5",
        ]
        for bad in bad { #expect(KernelMemory.objectBytes(bad) == nil) }
    }

    @Test("Pages of small objects are read")
    func pages() {
        #expect(
            KernelMemory.slabBytes("MemTotal: 5 kB\nSlab:            1078084 kB\nSUnreclaim: 3 kB\n") == 1_078_084 << 10
        )
        #expect(KernelMemory.slabBytes("MemTotal: 5 kB\n") == nil && KernelMemory.slabBytes("Slab: many\n") == nil)
    }

    @Test("Numbers of different sources have no difference, and buffers that others have freed no growth")
    func growth() throws {
        let before = KernelMemory(slab: 100, source: .objects, buffers: 4096)
        let after = KernelMemory(slab: 350, source: .objects, buffers: 12288)
        let growth = try #require(after.growth(since: before))
        #expect(growth.slab == 250 && growth.buffers == 8192)
        #expect(KernelMemory(slab: 350, source: .pages, buffers: 12288).growth(since: before) == nil)
        let freed = KernelMemory(slab: 350, source: before.source, buffers: before.buffers - 1)
        #expect(try #require(freed.growth(since: before)).buffers == nil)
    }

    #if os(Linux)
    @Test("Linux tells the numbers")
    func now() throws {
        #expect(try #require(KernelMemory.now()).slab > 0)
    }
    #endif
}
