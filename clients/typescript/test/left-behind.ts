/** A program with a server for tests, which is killed. */
import { TestServer } from "../src/testing.js";

const server = await TestServer.start();
console.log(server.adminUrl);
