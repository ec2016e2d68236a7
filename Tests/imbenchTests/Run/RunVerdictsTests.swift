import Measuring
import Testing

@testable import CommandSupport
@testable import imbench

/// A run over transports with these round trips in µs, with JSON at one size.
private func results(_ times: [(transport: String, time: Double)], repeats: Int = 20) -> RunResults {
    var results = sampleResults()
    let row = results.rows[0]
    results.rows = times.map { transport, time in
        var row = row
        row.transport = transport
        row.repeats[.p50] = [Double?](repeating: time, count: repeats)
        row.repeats[.cpu] = [Double?](repeating: time / 10, count: repeats)
        row.bytesPerMessage?.framing = transport == "mqtt" ? 40 : 8
        row.bytesPerMessage?.topic = 0
        return row
    }
    return results
}

@Suite("The sentences of a run")
struct RunVerdictsTests {
    @Test("Similar transports end in advice to choose by other properties, and the next commands")
    func similar() {
        let results = results([("tcp", 50), ("ws", 54), ("mqtt", 60)])
        let conclusions = results.conclusions
        #expect(conclusions.count == 2)
        #expect(
            conclusions[0]
                == "On this machine, with the same codec and size, the slowest transport takes about 1.2 "
                + "times the time of the fastest (at most 1.2 times, with 95 % certainty). The largest difference that is sure with 95 %: "
                + "with json, mqtt takes at least 20 % longer than tcp."
        )
        #expect(
            conclusions[1]
                == "On the wire, a message of 256 bytes takes from 391 bytes (json over tcp) to 423 bytes (json over mqtt)."
        )
        #expect(
            results.advice == [
                "Choose the transport by what it guarantees, and by the network. Loopback has no loss: see 'imbench open --network "
                    + "4g', 'imbench outage', 'imbench advise'."
            ]
        )
    }

    @Test("The largest difference is that of any two transports, not only of one from the first")
    func extremes() {
        let conclusions = results([("tcp", 50), ("ws", 60), ("mqtt", 45)]).conclusions
        #expect(
            conclusions[0].contains(
                "about 1.33 times the time of the fastest (at most 1.34 times, with 95 % certainty). The largest difference that is sure "
                    + "with 95 %: with json, ws takes at least 33 % longer than mqtt."
            )
        )
    }

    @Test("Transports that differ much are named as such, with a factor that is sure")
    func different() {
        let conclusions = results([("tcp", 50), ("ws", 120)]).conclusions
        #expect(
            conclusions[0]
                == "On this machine, with the same codec and size, the slowest transport takes about 2.4 "
                + "times the time of the fastest (at most 2.4 times, with 95 % certainty). The largest difference that is sure with 95 %: "
                + "with json, ws takes at least 2.4 times as long as tcp."
        )
    }

    @Test("Results beside other programs begin with that, and the rule of the sentences says it too")
    func disturbed() {
        var disturbed = results([("tcp", 50), ("ws", 120)])
        let quiet = disturbed.report.text(.table, .none, .init(width: .max))
        #expect(quiet.contains("\nOn this machine, with the same codec") && !quiet.contains("disturbed machine"))
        disturbed.record.load = MachineLoad(average: 1, others: 1.5, stolen: 0, involuntarySwitches: 100, seconds: 75)
        let report = disturbed.report
        #expect(
            report.verdict[0].hasPrefix(
                "On a disturbed machine: with the same codec and size, the slowest transport takes about"
            )
        )
        let text = report.text(.table, .none, .init(width: .max))
        #expect(text.contains("The machine was disturbed, so such a difference may be one of the disturbance."))
        #expect(!text.contains("All intervals of a table are right together") && !text.contains("On this machine"))
        #expect(report.text(.json, .none).contains("\"On a disturbed machine: with the same codec"))
    }

    @Test("Rows that were skipped are named below the table, because the slowest and the fastest are without them")
    func skipped() {
        var results = results([("tcp", 50), ("ws", 54), ("udp", 60), ("mqtt", 70)])
        results.rows[2].outcome = .skipped("too large")
        results.rows[2].rtt = nil
        #expect(results.skipped == "1 of 4 rows was skipped (udp).")
        #expect(results.report.sections.contains { $0.notes.contains("1 of 4 rows was skipped (udp).") })
        var large = results.rows
        for index in large.indices { large[index].size = 4096 }
        large[2].outcome = .measured
        large[2].rtt = large[0].rtt
        results.rows += large
        #expect(results.skipped == "1 of 8 rows was skipped (udp with json at 256 bytes).")
    }

    @Test("A closed loop says that the repeats without a median are slow ones")
    func slowRepeats() {
        var results = results([("tcp", 50), ("ws", 54)])
        let note = "In 1 row (ws json 256), some repeats have fewer than 20 messages and so no median."
        #expect(!results.report.text(.table, .none, .init(width: .max)).contains("so no median"))
        results.rows[1].repeats[.p50]?[3] = nil
        #expect(results.report.text(.table, .none, .init(width: .max)).contains(note))
        results.rows += (0..<4).map { size in
            var row = results.rows[1]
            row.size = size
            return row
        }
        #expect(
            results.report.text(.table, .none, .init(width: .max)).contains(
                "In 5 rows (ws json 256, ws json 0, ws json 1 and 2 more), some"
            )
        )
    }

    @Test("The conclusion is also about the codecs, and says that a bound includes noise")
    func codecs() {
        var run = results([("tcp", 50), ("ws", 50)])
        run.rows[1].repeats[.p50] = (0..<20).map { $0.isMultiple(of: 2) ? 40 : 80 }
        run.rows += run.rows.map { row in
            var row = row
            row.codec = "protobuf"
            row.repeats[.p50] = row.repeats[.p50]?.map { $0.map { $0 / (row.transport == "tcp" ? 1.2 : 1.1) } }
            return row
        }
        #expect(
            run.conclusions[0]
                == "On this machine, with the same codec and size, the slowest transport takes about 1.23 "
                + "times the time of the fastest (at most 1.75 times, with 95 % certainty). "
                + "With the same transport and size, the "
                + "slowest codec takes about 1.2 times the time of the fastest (at most 1.2 times). The largest sure difference: over "
                + "tcp, protobuf takes at least 16 % less time than json."
        )
        #expect(
            run.advice[0].hasPrefix(
                "The bound of 1.75 times includes noise: a quiet machine or more --repeat gives a closer one. Loopback has "
            )
        )
        run.rows = run.rows.filter { $0.transport == "tcp" }
        #expect(
            run.conclusions[0]
                == "On this machine, with the same transport and size, the slowest codec takes about 1.2 "
                + "times the time of the fastest (at most 1.2 times, with 95 % certainty). The largest difference that is sure with 95 %: "
                + "over tcp, protobuf takes at least 16 % less time than json."
        )
    }

    @Test("An outside server is not this machine, and has no next commands")
    func outside() {
        var outside = results([("tcp", 50), ("ws", 50)])
        outside.record.options.append(("url", "ws://example.org"))
        #expect(outside.conclusions.count == 1 && !outside.advice.contains { $0.contains("imbench") })
        #expect(
            outside.conclusions[0].hasPrefix(
                "In this run, with the same codec and size, the slowest transport takes about 1 times "
            )
        )
    }

    @Test(
        "A debug build has no conclusion, and rows that are not compared have their medians, with the remedy if there is one"
    )
    func none() {
        var debug = results([("tcp", 50), ("ws", 54)])
        debug.record.environment.isDebugBuild = true
        #expect(debug.conclusions.isEmpty && debug.advice.isEmpty && debug.choice == nil)
        var single = results([("tcp", 50)])
        single.rows[0].rttP50Spread = RepeatStatistics([50, 50, 51])
        #expect(
            single.conclusions == ["With messages of \(single.rows[0].size) bytes, the median round trip is 50.0 µs."]
        )
        #expect(single.advice.isEmpty)
        var few = results([("tcp", 50), ("ws", 54)], repeats: 3)
        few.rows[0].rttP50Spread = RepeatStatistics([50, 50, 51])
        few.rows[1].rttP50Spread = RepeatStatistics([54, 54, 53])
        #expect(
            few.conclusions == [
                "With messages of \(few.rows[0].size) bytes, the median round trip is 50.0 to 54.0 µs.",
                "3 repeats are too few to separate any difference from noise. It takes 6: --repeat 6.",
            ]
        )
    }

    @Test("Too few repeats are said once in the verdict and once below the tables, without the rule of a difference")
    func tooFew() {
        let few = results([("tcp", 50), ("ws", 54)], repeats: 3)
        let text = few.report.text(.table, .none, .init(width: .max))
        #expect(text.ranges(of: "3 repeats are too few to separate").count == 2)
        #expect(!text.contains("A difference is sure if"))
        let enough = results([("tcp", 50), ("ws", 54)]).report.text(.table, .none, .init(width: .max))
        #expect(enough.contains("A difference is sure if"))
    }

    @Test("A transport without enough medians is left out by name")
    func leftOut() {
        var results = results([("tcp", 50), ("ws", 54), ("udp", 60)])
        results.rows[2].repeats[.p50] = [Double?](repeating: nil, count: 20)
        #expect(
            results.conclusions[0].contains(
                " than tcp. 1 of 2 comparisons is left out (udp), because too few repeats have a value in both rows."
            )
        )
        // A longer list is below the table.
        results.rows += results.rows.map { row in
            var row = row
            row.codec = "protobuf"
            return row
        }
        results.rows[1].repeats[.p50] = [Double?](repeating: nil, count: 20)
        #expect(
            results.conclusions[0].hasSuffix(
                " 5 of 7 comparisons are left out, because too few repeats have a value in both rows."
            )
        )
    }

    @Test("The conclusion has as many comparisons as the sentences to which it refers")
    func corrections() {
        // Two transports with two codecs are four comparisons, which take eight repeats.
        func run(repeats: Int) -> RunResults {
            var run = results([("tcp", 50), ("ws", 120)], repeats: repeats)
            run.rows += run.rows.map { row in
                var row = row
                row.codec = "protobuf"
                return row
            }
            return run
        }
        #expect(run(repeats: 7).conclusions.last?.hasSuffix("It takes 8: --repeat 8.") == true)
        #expect(run(repeats: 7).roundTripSentences.contains { $0.hasSuffix("It takes 8: --repeat 8.") })
        #expect(run(repeats: 8).conclusions[0].contains(", ws takes at least 2.4 times as long as tcp."))
        #expect(run(repeats: 8).roundTripSentences[0] == "In every row, ws takes 2.4 times as long as tcp.")
    }

    @Test("Less than a byte is no difference, because the number of acknowledgements varies")
    func bytes() {
        var results = results([("tcp", 50), ("ws", 54)])
        results.rows[1].bytesPerMessage?.transportIP = 67.2
        #expect(results.costSentences.contains { $0.hasSuffix("a message takes on the wire: over ws as many bytes.") })
        #expect(!results.conclusions.contains { $0.hasPrefix("On the wire, ") })
    }

    @Test("The bytes of a topic are named as a choice of the app, and a row without known headers is left out by name")
    func topicAndHeaders() {
        var results = results([("tcp", 50), ("mqtt", 54), ("http", 60)])
        results.rows[1].bytesPerMessage?.topic = 25
        results.rows[2].bytesPerMessage?.transportIP = nil
        #expect(
            results.costSentences.contains {
                $0.hasSuffix(": over mqtt 32 bytes more (25 are the topic, whose length the app chooses).")
            }
        )
        #expect(
            results.conclusions[1]
                == "On the wire, a message of 256 bytes takes from 391 bytes (json over tcp) to 423 bytes (json over mqtt); http "
                + "without known headers not counted."
        )
    }

    @Test("All topics of a run have the same length, and are different")
    func topics() {
        let names = [(0, 1), (1, 2), (UInt64.max, 3), (7, 999_999)].map { Stage.identifier($0.0, $0.1) }
        #expect(Set(names).count == 4 && names.allSatisfy { $0.count == 16 })
    }

    @Test("The sentences stand under their tables and in the JSON")
    func report() {
        let results = results([("tcp", 50), ("ws", 54), ("mqtt", 60)])
        let text = results.report.text(.table, .none, .init(width: .max))
        let sentences = [
            "With json, mqtt takes 20 % longer than tcp.", "With json, ws takes 8 % longer than tcp.",
            "With json, mqtt uses 20 % more CPU time per message than tcp.",
            "Bytes are counted, but acknowledgements of TCP depend on timing, so less than 1 byte is no difference. Compared "
                + "with tcp, a message takes on the wire: over ws as many bytes, over mqtt 32 bytes more.",
        ]
        let json = results.report.text(.json, .none)
        for sentence in sentences {
            #expect(text.contains("\n" + sentence + "\n"), "\(sentence)")
        }
        for sentence in sentences + results.conclusions {
            #expect(json.contains("\"" + sentence + "\""), "\(sentence)")
        }
        // The answer comes first.
        let places = [
            String(results.conclusions[0].prefix(60)), "Round trips\n", sentences[0], "Costs per message", sentences[2],
        ]
        .compactMap {
            text.firstRange(of: $0)?.lowerBound
        }
        #expect(places.count == 5 && places == places.sorted())
    }
}
