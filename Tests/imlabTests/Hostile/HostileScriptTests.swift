import Testing

@testable import imlab

@Suite("A load of SUBSCRIBE packets")
struct FilterLoadTests {
    @Test("Each filter of a load has its client and its round, and the rest is unchanged")
    func names() {
        let load = FilterLoad(Array("+/\(FilterLoad.mark)n1 \(FilterLoad.mark)n2/#".utf8))
        let texts = [(0, 0), (12, 345), (999_999, 99_999_999)].map {
            String(decoding: load.bytes($0, $1), as: UTF8.self)
        }
        #expect(
            texts == [
                "+/c000000/r00000000/n1 c000000/r00000000/n2/#",
                "+/c000012/r00000345/n1 c000012/r00000345/n2/#",
                "+/c999999/r99999999/n1 c999999/r99999999/n2/#",
            ]
        )
    }
}
