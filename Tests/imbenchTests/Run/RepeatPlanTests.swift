import Testing

@testable import CommandSupport
@testable import imbench

@Suite("The repeats of a run")
struct RepeatPlanTests {
    private func plan(messages: Int, repeats: Int, connections: Int = 1) -> RepeatPlan {
        RepeatPlan(EchoLoad(connections: connections, extent: .messages(messages), repeats: repeats))
    }

    @Test("A duration is divided by the repeats, whose messages have no limit")
    func duration() {
        let plan = RepeatPlan(EchoLoad(extent: .duration(.seconds(3)), repeats: 4))
        #expect(plan.duration == .milliseconds(750) && plan.remark == nil)
        #expect(plan.messages == [.max, .max, .max, .max])
    }

    @Test("As many messages are measured as the option says, in repeats that differ by one message at most")
    func messages() {
        #expect(plan(messages: 100, repeats: 30).messages.reduce(0, +) == 100)
        #expect(plan(messages: 11, repeats: 4).messages == [3, 3, 3, 2])
        let even = plan(messages: 12, repeats: 3, connections: 4)
        #expect(even.messages == [4, 4, 4] && even.remark == nil)
        #expect(RepeatPlan.shares(of: 7, among: 3) == [3, 2, 2])
        #expect(RepeatPlan.shares(of: .max, among: 2).reduce(0, +) == .max)
    }

    @Test("Fewer messages than repeats and connections have fewer repeats, and a remark says so")
    func few() {
        let ten = plan(messages: 10, repeats: 30)
        #expect(ten.messages == [Int](repeating: 1, count: 10))
        #expect(
            ten.remark
                == "--messages 10: each row has 10 messages in 10 repeats, because each connection sends at least one in a "
                + "repeat"
        )
        #expect(plan(messages: 10, repeats: 30, connections: 4).messages == [5, 5])
        let fewer = plan(messages: 3, repeats: 1, connections: 4)
        #expect(fewer.messages == [4] && fewer.remark?.contains("each row has 4 messages in 1 repeat,") == true)
    }
}
