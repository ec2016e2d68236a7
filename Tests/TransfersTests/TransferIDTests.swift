import Testing
import Transfers

@Suite("The identifier of a transfer") struct TransferIDTests {
    @Test("It is read back from its text")
    func text() {
        let id = TransferID(high: 1, low: .max)
        #expect(id.description == "0000000000000001ffffffffffffffff" && TransferID(id.description) == id)
        for wrong in ["", "00", "+000000000000001ffffffffffffffff", "g000000000000001ffffffffffffffff"] {
            #expect(TransferID(wrong) == nil)
        }
    }
}
