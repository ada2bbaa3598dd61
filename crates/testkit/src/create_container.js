// Creates a container in Azurite: node -e SCRIPT ENDPOINT CONTAINER
//
// The request is signed as "Authorize with Shared Key" in Microsoft's documentation of Azure Storage says.
const crypto = require("node:crypto");

const [endpoint, container] = process.argv.slice(1);
// Every Azurite has this account with this key.
const account = "devstoreaccount1";
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2021-08-06" };
const signedHeaders = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("");
// The path of an emulator begins with the account, before which the signed text has it once more.
const resource = `/${account}/${account}/${container}\nrestype:container`;
const text = `PUT${"\n".repeat(12)}${signedHeaders}${resource}`;
const signature = crypto.createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");

fetch(`${endpoint}/${account}/${container}?restype=container`, {
  method: "PUT",
  headers: { ...headers, authorization: `SharedKey ${account}:${signature}` },
}).then(async (answer) => {
  if (answer.status !== 201) {
    throw new Error(`status ${answer.status}: ${await answer.text()}`);
  }
});
