<#
Runs the programs of this kit with DxDispatch, and writes what they give to the folder results.
A program that has been run is not run again: delete the folder results to begin anew.

    .\run.ps1 -DxDispatch C:\dxdispatch\dxdispatch.exe [-Adapter "Basic Render"] [-Seconds 60]

Then, on any machine: anydml compare FOLDER
#>
param(
    [Parameter(Mandatory = $true)] [string] $DxDispatch,
    [string] $Adapter = "",
    [int] $Seconds = 60
)
$ErrorActionPreference = "Stop"
$kit = Get-Content -Raw -Encoding UTF8 (Join-Path $PSScriptRoot "kit.json") | ConvertFrom-Json
$results = Join-Path $PSScriptRoot "results"
New-Item -ItemType Directory -Force $results | Out-Null
& $DxDispatch --show_adapters *> (Join-Path $results "adapters.txt")

$done = 0
foreach ($case in $kit.cases) {
    $done += 1
    $to = Join-Path $results $case.name
    if (Test-Path (Join-Path $to "exit.txt")) { continue }
    New-Item -ItemType Directory -Force $to | Out-Null
    $from = Join-Path (Join-Path $PSScriptRoot "programs") $case.name
    $program = Join-Path $from "program.json"
    # -w 0: a program may change its inputs, so that it runs once
    $arguments = "`"$program`" --input_path `"$from`" --output_path `"$to`" --dml_feature_level $($case.level) -i 1 -r 1 -w 0"
    if ($Adapter) { $arguments += " -a `"$Adapter`"" }
    $process = Start-Process -FilePath $DxDispatch -ArgumentList $arguments -PassThru -NoNewWindow `
        -RedirectStandardOutput (Join-Path $to "output.txt") -RedirectStandardError (Join-Path $to "error.txt")
    $null = $process.Handle  # or ExitCode would be empty
    if ($process.WaitForExit($Seconds * 1000)) {
        $process.WaitForExit()
        $status = "$($process.ExitCode)"
    } else {
        $process.Kill()
        $status = "ended after $Seconds seconds"
    }
    Set-Content -Path (Join-Path $to "exit.txt") -Value $status -Encoding ascii
    Write-Progress -Activity "DxDispatch" -Status $case.name -PercentComplete (100 * $done / $kit.cases.Count)
}
Write-Output "$done programs. Their results are in $results"
