// Runs the public conformance suite against a server, with the same random values each time.
import * as fc from "fast-check"
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

fc.configureGlobal({ seed: 118 })
runConformanceTests({ baseUrl: process.env.STREAMS_URL, longPollTimeoutMs: 60000 })
