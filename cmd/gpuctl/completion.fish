# gpuctl(1) and the other programs: completion for fish. gpuctl supplies the candidates; see completion.c.

function __gpuctl_offer
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '.*/' '' -- $words[1])
    set -l ask (string replace -r '[^/]*$' gpuctl -- $words[1]) completion --
    test $program = gpuctl; or set -a ask $program
    for line in ($ask $words[2..-1] $current 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path $current
            case ':command*'
                set -l at (string split \t -- $line)[2]
                set -l command $words[(math $at + 2)..-1]
                complete -C (string join ' ' -- (string escape -- $command) $current)
            case '*'
                echo $line
        end
    end
end

for program in gpuctl mnist-train gpucoord gpudev
    complete -c $program -f -a '(__gpuctl_offer)'
end
