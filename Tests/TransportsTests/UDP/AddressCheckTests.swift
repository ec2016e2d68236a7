import Testing

@testable import Transports

@Suite("UDP: when a client compares its address")
struct AddressCheckTests {
    @Test("A check is due after 5 s of silence")
    func silence() {
        var check = AddressCheck(now: 100)
        #expect(!check.isDue(now: 99 + AddressCheck.silence))
        #expect(check.isDue(now: 100 + AddressCheck.silence))
        check.heard(now: 200)
        #expect(!check.isDue(now: 199 + AddressCheck.silence))
    }

    @Test("Checks are a second apart, whatever causes them")
    func pause() {
        var check = AddressCheck(now: 0)
        let times = [0, AddressCheck.pause - 1, AddressCheck.pause, AddressCheck.pause]
        let begun = times.map { check.begin(now: $0) }
        #expect(begun == [true, false, true, false])
    }
}
